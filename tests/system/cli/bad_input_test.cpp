// Bad input gives one clear message and the documented exit code, and no hang, at any number of ranks.
#include "core/error.h"
#include "tests/system/cli/program.h"

#include <functional>
#include <set>
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

std::string labels(int count, char label) { return big_endian(0x801) + big_endian(count) + std::string(count, label); }

void write(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

constexpr char kTrainImages[] = "train-images-idx3-ubyte", kTrainLabels[] = "train-labels-idx1-ubyte";

// The options for a small dataset in IDX files, which `damage` then changes.
std::string small_data(const TempFolder& folder, int size, const std::function<void(const fs::path&)>& damage) {
  const fs::path data = folder / "data";
  fs::create_directories(data);
  write(data / kTrainImages, images(20, size));
  write(data / kTrainLabels, labels(20, 3));
  write(data / "t10k-images-idx3-ubyte", images(10, size));
  write(data / "t10k-labels-idx1-ubyte", labels(10, 3));
  damage(data);
  return "--dataset mnist --data-path " + data.string();
}

struct Case {
  std::string name;
  Exit code;
  std::string message;  // expected substring
  std::function<std::string(const TempFolder&)> arguments;
};

void PrintTo(const Case& bad, std::ostream* stream) { *stream << bad.name; }

Case data_case(const std::string& name, Exit code, const std::string& message,
               const std::function<void(const fs::path&)>& damage, int size = 28) {
  return {name, code, message, [=](const TempFolder& folder) { return small_data(folder, size, damage); }};
}

Case plain(const std::string& name, Exit code, const std::string& message, const std::string& arguments) {
  return {name, code, message, [=](const TempFolder&) { return arguments; }};
}

const std::vector<Case> kCases = {
    plain("MissingData", Exit::data, "--data-path", "--data-path /nonexistent"),
    data_case("Truncated", Exit::data, "truncated",
              [](const fs::path& data) { fs::resize_file(data / kTrainImages, 5000); }),
    data_case("Corrupt", Exit::data, kTrainImages,
              [](const fs::path& data) {
                write(data / "plain", images(20, 28));
                shell("gzip -c " + (data / "plain").string() + " > " + (data / kTrainImages).string() + ".gz");
                fs::remove(data / kTrainImages);
                std::fstream file(data / (std::string(kTrainImages) + ".gz"),
                                  std::ios::in | std::ios::out | std::ios::binary);
                file.seekp(-6, std::ios::end);
                file.put('\x55');
              }),
    data_case("WrongMagic", Exit::data, kTrainImages,
              [](const fs::path& data) {
                fs::copy_file(data / kTrainLabels, data / kTrainImages, fs::copy_options::overwrite_existing);
              }),
    data_case("LabelOutOfRange", Exit::data, "label",
              [](const fs::path& data) { write(data / kTrainLabels, labels(20, 10)); }),
    data_case("CountsDiffer", Exit::data, "19",
              [](const fs::path& data) { write(data / kTrainLabels, labels(19, 3)); }),
    data_case(
        "ModelDoesNotFit", Exit::model, "larger", [](const fs::path&) {}, 8),
    data_case(
        "PoolDoesNotFit", Exit::model, "larger", [](const fs::path&) {}, 12),
    data_case("TestImagesOfAnotherShape", Exit::data, "14x14x1",
              [](const fs::path& data) { write(data / "t10k-images-idx3-ubyte", images(10, 14)); }),
    plain("UnknownOption", Exit::usage, "--frobnicate", "--frobnicate"),
    plain("UnknownValue", Exit::usage, "--model", "--model alexnet"),
    plain("UnknownDataset", Exit::usage, "fashion-mnist", "--dataset cifar"),
    plain("BatchSizeZero", Exit::usage, "--batch-size", "--batch-size 0"),
    plain("NotANumber", Exit::usage, "--lr", "--lr fast"),
    plain("WrongNumberOfWeights", Exit::usage, "--rank-weights", "--rank-weights 1,2,3,4,5,6,7"),
    plain("TooManySamples", Exit::usage, "60000", "--train-samples 60001"),
    {"UnknownConfigKey", Exit::usage, "frobnicate",
     [](const TempFolder& folder) {
       write(folder / "config.toml", "frobnicate = 1\n");
       return "--config " + (folder / "config.toml").string();
     }},
    {"BrokenConfig", Exit::usage, "line 2",
     [](const TempFolder& folder) {
       write(folder / "config.toml", "lr = 0.1\nepochs = = 3\n");
       return "--config " + (folder / "config.toml").string();
     }},
    plain("BucketCapNotANumber", Exit::usage, "--bucket-cap-mb", "--bucket-cap-mb nan"),
    plain("OutputNameTooLong", Exit::output, "--output-dir", "--output-dir " + std::string(300, 'x')),
    plain("UnwritableOutput", Exit::output, "--output-dir", "--output-dir /dev/null/run"),
    {"OutputHoldsARun", Exit::output, "already has a run",
     [](const TempFolder& folder) {
       write(folder / "metrics.jsonl", "");
       return "--output-dir " + (folder / "").string();
     }},
    {"BrokenWeights", Exit::data, "safetensors",
     [](const TempFolder& folder) {
       write(folder / "weights", "this is not a model");
       return "--init-from " + (folder / "weights").string();
     }},
    {"FifoForWeights", Exit::data, "is a FIFO",
     [](const TempFolder& folder) {
       shell("mkfifo " + (folder / "weights").string());
       return "--init-from " + (folder / "weights").string();
     }},
    {"NanLoss", Exit::numerics, "step",
     [](const TempFolder& folder) {
       return "--model mlp --batch-size 32 --lr 1e30 --train-samples 1000 --epochs 1 --output-dir " +
              (folder / "run").string();
     }},
    plain("NoGpu", Exit::device, "use --device cpu", "--device cuda"),
    plain("GpuOption", Exit::usage, "--nccl-algo", "--device cpu --nccl-algo ring"),
    plain("GpuPrecision", Exit::usage, "--precision", "--device cpu --precision tf32"),
    plain("NormsOfANetworkWithout", Exit::usage, "lenet has no batch norms", "--sync-bn"),
    plain("StateInPartsOfWholeTensors", Exit::usage, "--optimizer lars", "--zero 1 --optimizer lars"),
    {"KernelLargerThanItsInput", Exit::model, "layer 3 (conv2d 24@6x6)",
     [](const TempFolder& folder) { return small_data(folder, 5, [](const fs::path&) {}) + " --model keras-convnet"; }},
    plain("GpuTransport", Exit::usage, "--transport nccl", "--device cpu --transport nccl"),
};

class BadInput : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(BadInput, GivesOneMessageAndTheExitCode) {
  const auto& [bad, ranks] = GetParam();
  const TempFolder folder;
  const Outcome outcome = program(ranks, bad.arguments(folder));
  EXPECT_EQ(outcome.code, static_cast<int>(bad.code)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
  const size_t at = outcome.output.find("error:");
  ASSERT_NE(at, std::string::npos);
  const std::string message = outcome.output.substr(at, outcome.output.find("\n", at) - at);
  EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  EXPECT_EQ(message.find(".cpp:"), std::string::npos) << message;
}

// Each case without mpirun and with three ranks. The address sanitizer, with which a rank starts slowly, sees the way
// of three ranks with one case for each exit code.
std::vector<std::tuple<Case, int>> cases_and_ranks() {
  std::vector<std::tuple<Case, int>> all;
  std::set<Exit> codes;
  for (const Case& bad : kCases) {
    all.emplace_back(bad, 0);
#ifdef __SANITIZE_ADDRESS__
    if (!codes.insert(bad.code).second) continue;
#endif
    all.emplace_back(bad, 3);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(, BadInput, ::testing::ValuesIn(cases_and_ranks()), [](const auto& test) {
  return fmt::format("{}_{}", std::get<0>(test.param).name, std::get<1>(test.param));
});

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
  for (const std::string other : {"--max-steps 3", "--train-samples 30"}) {
    const Outcome outcome = shell(fmt::format("timeout -k 5 400 {} -np 1 {} --max-steps 2 : -np 1 {} {}", DDP_MPIRUN,
                                              DDP_PROGRAM, DDP_PROGRAM, other));
    EXPECT_EQ(outcome.code, static_cast<int>(Exit::communication)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
  }
}

// The launcher starts N jobs of one rank instead of one job of N ranks.
TEST(Launcher, RefusesFewerRanksThanExpected) {
  const Outcome outcome = shell(fmt::format("OMPI_COMM_WORLD_SIZE=4 timeout 60 {} --max-steps 1", DDP_PROGRAM));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::world)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
