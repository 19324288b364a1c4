// The kernels of convolutions by measurement: what a run measures and keeps, and what takes it over.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <string>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The numbers that a checkpoint keeps, of each pass of each convolution.
std::string numbers_in(const fs::path& run, int step) { return kept_in(run, step, "ops"); }

size_t measured_by(const fs::path& run) { return events(run, "run").at(0).value("algorithms", json::array()).size(); }

// The resumed run begins inside an epoch. Two runs could choose other kernels, which round in another way.
TEST(MeasuredKernels, AreKeptAndReused) {
  const TempFolder folder;
  few_images(folder / "images", 64, 16);
  folder.write("wide.toml", R"(layers = [
    { conv2d = 32, kernel = 3, padding = 1 }, { activation = "relu" },
    { conv2d = 32, kernel = 3, padding = 1 }, { activation = "relu" }, { max_pool2d = 2 },
    { conv2d = 32, kernel = 3, padding = 1 }, { activation = "relu" }, { flatten = true }, { linear = "classes" } ])");
  const std::string options =
      fmt::format("--data-path {} --model {} --batch-size 16 --print-freq 0 --eval-every 0 --bucket-cap-mb 1",
                  (folder / "images").string(), (folder / "wide.toml").string());
  const auto train = [&](const std::string& name, const std::string& more) {
    const Outcome outcome = program(2, fmt::format("{} --output-dir {} {}", options, (folder / name).string(), more));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "not bit-identical"), 0) << outcome.output;
  };
  const auto weights = [&](const std::string& run) { return read_file(folder / run / "model.safetensors"); };
  const std::string saves = " --save-every 3steps --keep-last 4 --max-steps 6";
  const std::string file = " --engine-file " + (folder / "engines.json").string();
  train("run", saves + file);
  const std::string kept = numbers_in(folder / "run", 3);
  EXPECT_EQ(numbers_in(folder / "run", 6), kept);
  if (measured_by(folder / "run") == 0) GTEST_SKIP() << "this processor has one kernel of each pass";
  EXPECT_NE(kept, "0 0 0 0 0 0 0 0 0");

  train("resumed", saves + " --resume " + (folder / "run/checkpoints/step-00000003").string());
  EXPECT_EQ(measured_by(folder / "resumed"), 0u);
  EXPECT_EQ(numbers_in(folder / "resumed", 6), kept);
  EXPECT_TRUE(weights("resumed") == weights("run"));

  train("other", saves + file + " --engine-seconds 0");
  EXPECT_EQ(measured_by(folder / "other"), 0u);
  EXPECT_EQ(numbers_in(folder / "other", 6), kept);
  EXPECT_TRUE(weights("other") == weights("run"));

  for (const auto& [name, option] :
       {std::pair{"no_time", " --engine-seconds 0"}, std::pair{"fixed", " --deterministic"}}) {
    train(name, saves + option);
    EXPECT_EQ(measured_by(folder / name), 0u);
    EXPECT_EQ(numbers_in(folder / name, 6), "0 0 0 0 0 0 0 0 0");
  }
}

}  // namespace
}  // namespace ddp::testing
