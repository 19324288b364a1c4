// Data and batches of unusual sizes: a run ends well, its results are numbers, and they do not depend on the world
// size.
#include "tests/system/cli/idx_data.h"
#include "tests/system/cli/run_folder.h"

namespace ddp::testing {
namespace {

struct OddRun {
  const char* name;
  uint32_t h, w, training, test, classes;
  const char* options;
  std::vector<int64_t> samples;  // of each step
};

// The first `classes` of ten classes have images.
const std::vector<OddRun> kOddRuns = {
    {"OddImages", 27, 31, 12, 9, 10, "--model keras-convnet --sync-bn --batch-size 8", {8, 4}},
    {"OnePixelAndMissingClasses", 1, 1, 16, 9, 7, "--model mlp --batch-size 8", {8, 8}},
    {"OneSample", 28, 28, 9, 1, 10, "--model keras-convnet --sync-bn --train-samples 1 --epochs 3", {1, 1, 1}},
    {"BatchesOfOne", 28, 28, 3, 3, 10, "--model keras-convnet --sync-bn --batch-size 1", {1, 1, 1}},
    {"LastBatchOfOne", 28, 28, 9, 5, 10, "--model keras-convnet --sync-bn --batch-size 4", {4, 4, 1}},
    {"FewerSamplesThanMicroBatches", 28, 28, 2, 5, 10, "--model lenet --accumulate 8 --epochs 2", {2, 2}},
};

class OddData : public ::testing::TestWithParam<OddRun> {};

TEST_P(OddData, TrainsAlikeOnOneAndOnThreeRanks) {
  const OddRun& c = GetParam();
  const TempFolder folder;
  const std::string data = idx_data(folder, c.h, c.w, c.training, c.test, c.classes);
  std::vector<double> expected;
  for (const int ranks : {0, 3}) {
    SCOPED_TRACE(ranks);
    const auto run = folder / fmt::format("run{}", ranks);
    const Outcome outcome =
        program(ranks, fmt::format("{} {} {} --lr 0.01 --threads 1 --output-dir {}", c.options, data,
                                   std::string(c.options).find("--epochs") == std::string::npos ? "--epochs 1" : "",
                                   run.string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "nan"), 0) << outcome.output;
    EXPECT_EQ(values_of<int64_t>(run, "step", "samples"), c.samples);
    const auto evaluations = events(run, "eval");
    EXPECT_EQ(evaluations.back().at("samples"), c.test);
    EXPECT_TRUE(nlohmann::json::parse(read_file(run / "summary.json")).at("test_accuracy").is_number());

    std::vector<double> losses = values_of<double>(run, "step", "loss");
    losses.push_back(evaluations.back().at("loss").get<double>());
    if (ranks == 0) expected = losses;
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 2e-5 * expected[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, OddData, ::testing::ValuesIn(kOddRuns), [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ddp::testing
