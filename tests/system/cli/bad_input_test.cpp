// Bad input gives one clear message and the documented exit code, and no hang. The unit tests of the readers and of the
// options have more cases.
#include "core/error.h"
#include "tests/system/cli/program.h"

#include <functional>
#include <tuple>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string images(int count, int size) {
  return big_endian(0x803) + big_endian(count) + big_endian(size) + big_endian(size) +
         std::string(static_cast<size_t>(count) * size * size, '\x40');
}

std::string labels(int count) { return big_endian(0x801) + big_endian(count) + std::string(count, 3); }

void write(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

constexpr char kTrainImages[] = "train-images-idx3-ubyte", kTrainLabels[] = "train-labels-idx1-ubyte",
               kTestImages[] = "t10k-images-idx3-ubyte", kTestLabels[] = "t10k-labels-idx1-ubyte";

// Three ranks show that all ranks together print one message, whether all have the error or rank 0 alone.
struct Case {
  std::string name;
  Exit code;
  std::string message;  // expected substring
  std::string options;  // {}: the folder of the test
  int ranks = 0;        // 0: without mpirun
  // Writes or damages files in the folder of the test. The data set is in its folder `data`.
  std::function<void(const fs::path&)> prepare = [](const fs::path&) {};
  int side = 28;  // of the images
};

void PrintTo(const Case& bad, std::ostream* stream) { *stream << bad.name; }

const std::vector<Case> kCases = {
    {"MissingData", Exit::data, "--data-path", "", 3, [](const fs::path& folder) { fs::remove_all(folder / "data"); }},
    {"Truncated", Exit::data, "truncated", "", 0,
     [](const fs::path& folder) { fs::resize_file(folder / "data" / kTrainImages, 5000); }},
    {"TestImagesOfAnotherShape", Exit::data, "14x14x1", "", 0,
     [](const fs::path& folder) { write(folder / "data" / kTestImages, images(10, 14)); }},
    {"ModelDoesNotFit", Exit::model, "larger", "", 3, [](const fs::path&) {}, 8},
    {"UnknownOption", Exit::usage, "--frobnicate", "--frobnicate", 3},
    {"BatchSizeZero", Exit::usage, "--batch-size", "--batch-size 0"},
    {"WrongNumberOfWeights", Exit::usage, "--rank-weights", "--rank-weights 1,2,3,4,5,6,7", 3},
    {"UnknownConfigKey", Exit::usage, "frobnicate", "--config {}/config.toml", 0,
     [](const fs::path& folder) { write(folder / "config.toml", "frobnicate = 1\n"); }},
    {"BrokenConfig", Exit::usage, "line 2", "--config {}/config.toml", 0,
     [](const fs::path& folder) { write(folder / "config.toml", "lr = 0.1\nepochs = = 3\n"); }},
    {"GroupWithoutAParameter", Exit::usage, "group 2 (fx.*) matches no trained parameter; the network has",
     "--config {}/config.toml", 3,
     [](const fs::path& folder) {
       write(folder / "config.toml", "[[group]]\nmatch = \"*.bias\"\nlr = 1\n[[group]]\nmatch = \"fx.*\"\nlr = 1\n");
     }},
    {"UnwritableOutput", Exit::output, "--output-dir", "--output-dir /dev/null/run"},
    {"OutputHoldsARun", Exit::output, "already has a run", "--output-dir {}", 3,
     [](const fs::path& folder) { write(folder / "metrics.jsonl", ""); }},
    {"BrokenWeights", Exit::data, "safetensors", "--init-from {}/weights", 3,
     [](const fs::path& folder) { write(folder / "weights", "this is not a model"); }},
    {"NanLoss", Exit::numerics, "step", "--model mlp --lr 1e30 --batch-size 10 --output-dir {}/run", 3},
    {"NoGpu", Exit::device, "use --device cpu", "--device cuda", 3},
    {"GpuOption", Exit::usage, "--nccl-algo", "--device cpu --nccl-algo ring"},
    {"GpuPrecision", Exit::usage, "--precision", "--device cpu --precision tf32"},
    {"NormsOfANetworkWithout", Exit::usage, "lenet has no batch norms", "--sync-bn"},
    {"UnknownPartToFreeze", Exit::usage,
     "--freeze: lenet has no parameter \"layer1\", nor one below it; its parts are 0, 3, 7, 9", "--freeze 3,layer1", 3},
    {"EverythingFrozen", Exit::usage, "all 8 parameters of lenet are frozen", "--freeze 0,3,7,9"},
    {"GpuTransport", Exit::usage, "--transport nccl", "--device cpu --transport nccl"},
};

class BadInput : public ::testing::TestWithParam<Case> {};

TEST_P(BadInput, GivesOneMessageAndTheExitCode) {
  const Case& bad = GetParam();
  const TempFolder folder;
  const fs::path data = folder / "data";
  fs::create_directories(data);
  write(data / kTrainImages, images(20, bad.side));
  write(data / kTrainLabels, labels(20));
  write(data / kTestImages, images(10, bad.side));
  write(data / kTestLabels, labels(10));
  bad.prepare(folder.path());
  const Outcome outcome = program(bad.ranks, fmt::format("--dataset mnist --data-path {} ", data.string()) +
                                                 fmt::format(fmt::runtime(bad.options), folder.path().string()));
  EXPECT_EQ(outcome.code, static_cast<int>(bad.code)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
  const size_t at = outcome.output.find("error:");
  ASSERT_NE(at, std::string::npos);
  const std::string message = outcome.output.substr(at, outcome.output.find("\n", at) - at);
  EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  EXPECT_EQ(message.find(".cpp:"), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(, BadInput, ::testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

// No case ends as an internal error, or waits.
TEST(KindsOfFiles, OtherThanExpectedAreRefused) {
  const TempFolder folder;
  const std::string place = (folder / "").string();
  shell(fmt::format("cd {} && mkfifo fifo && ln -s loop loop && mkdir data && mkfifo data/{}", place, kTrainImages));
  const std::string auto_in = "--resume auto --output-dir ", long_name(300, 'x');
  const std::tuple<std::string, Exit> cases[] = {
      {"--dataset mnist --data-path " + place + "data", Exit::data},
      {auto_in + place + "fifo", Exit::output},
      {auto_in + place + long_name, Exit::output},
      {"--output-dir " + place + "loop", Exit::output},
      {"--config " + place, Exit::usage},
  };
  for (const auto& [arguments, code] : cases) {
    const Outcome outcome = program(0, arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << arguments << "\n" << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "filesystem error"), 0) << outcome.output;
  }
}

// If one rank has another option, some ranks skip a collective and the first such collective would hang.
TEST(Launcher, RefusesRanksWithDifferentOptions) {
  const Outcome outcome = shell(fmt::format(
      "timeout -k 5 400 {0} -np 1 {1} --step-timeout 5 --max-steps 2 : -np 1 {1} --step-timeout 5 --max-steps 3",
      DDP_MPIRUN, DDP_PROGRAM));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::communication)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error: configuration is not the same on all ranks"), 1) << outcome.output;
}

// The launcher starts N jobs of one rank instead of one job of N ranks.
TEST(Launcher, RefusesFewerRanksThanExpected) {
  const Outcome outcome = shell(fmt::format("OMPI_COMM_WORLD_SIZE=4 timeout 60 {} --max-steps 1", DDP_PROGRAM));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::world)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
