// The options of the course of a run: steps, epochs, evaluations, printed lines, checkpoints.
#include "core/error.h"
#include "tests/system/cli/option_runs.h"

#include <algorithm>

namespace ddp::testing {
namespace {

using nlohmann::json;

struct Course {
  const char* options;
  std::vector<int64_t> samples;      // of each step
  std::vector<int64_t> evaluations;  // their steps
  int lines;                         // printed, of steps
  std::vector<std::string> checkpoints = {};
};

const std::vector<Course> kCourses{
    {"--epochs 3 --train-samples 24 --eval-every 2 --save-every 2epochs", {16, 8, 16, 8, 16, 8}, {4, 6}, 0, {"4", "6"}},
    {"--epochs 2 --save-every 3steps --keep-last 2 --print-freq 3", std::vector<int64_t>(8, 16), {}, 4, {"6", "8"}},
    {"--epochs 2 --max-steps 7 --save-every 3steps --keep-last 0 --print-freq 1",
     std::vector<int64_t>(7, 16),
     {},
     7,
     {"3", "6", "7"}}};

// The steps of the checkpoints of a run, in order.
std::vector<std::string> checkpoints_of(const fs::path& run) {
  std::vector<std::string> steps;
  if (!fs::exists(run / "checkpoints")) return steps;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
    if (const std::string name = entry.path().filename(); name.starts_with("step-"))
      steps.push_back(fmt::format("{}", std::stoi(name.substr(5))));
  std::ranges::sort(steps, {}, [](const std::string& step) { return std::stoi(step); });
  return steps;
}

class RunOptions : public OptionRuns {};

TEST_F(RunOptions, GiveThisCourse) {
  for (const Course& course : kCourses) {
    SCOPED_TRACE(course.options);
    const Run& done = run(fmt::format("--lr 0.1 {}", course.options));
    EXPECT_EQ(done.steps<int64_t>("samples"), course.samples);
    EXPECT_EQ(values_of<int64_t>(done.folder, "eval", "step"), course.evaluations);
    EXPECT_EQ(count(done.output, " samples/s, ms: "), course.lines) << done.output;
    EXPECT_EQ(checkpoints_of(done.folder), course.checkpoints);
    EXPECT_FALSE(fs::exists(done.folder / "checkpoints/best"));  // without --keep-best
  }
}

// The time has passed after each step; a save takes some steps to come about.
TEST_F(RunOptions, SaveEverySavesByTime) {
  EXPECT_GE(checkpoints_of(run("--epochs 3 --save-every 0.000001s --keep-last 0").folder).size(), 3u);
}

// The best checkpoint stays, though it is not the last one.
TEST_F(RunOptions, KeepBestKeepsTheBestCheckpoint) {
  const Run& done = run("--epochs 8 --eval-every 1 --save-every 1epochs --keep-last 1 --keep-best");
  const auto accuracies = values_of<double>(done.folder, "eval", "accuracy");
  const auto best = std::ranges::max_element(accuracies) - accuracies.begin();
  ASSERT_LT(best, 7) << "choose another rate";
  EXPECT_EQ(checkpoints_of(done.folder), (std::vector<std::string>{fmt::format("{}", 4 * (best + 1)), "32"}));
  const json state = json::parse(read_file(done.folder / "checkpoints/best/state.json"));
  EXPECT_EQ(state.at("accuracy"), accuracies[best]);
  const json summary = json::parse(read_file(done.folder / "summary.json"));
  EXPECT_EQ(summary.at("test_accuracy"), accuracies.back());
  EXPECT_EQ(summary.at("best_accuracy"), accuracies[best]);
  EXPECT_EQ(summary.at("best_epoch"), best + 1);
}

TEST_F(RunOptions, SkipBadStepsLeavesTheWeightsAsTheyAre) {
  const Run& skipped = run("--max-steps 3 --inject step=3,kind=nan --skip-bad-steps 1");
  EXPECT_EQ(count(skipped.output, "\nskipped: "), 1) << skipped.output;
  EXPECT_TRUE(events(skipped.folder, "step").at(2).contains("skipped"));
  EXPECT_TRUE(skipped.bytes() == run("--max-steps 2").bytes());
}

// The running averages of one step are far from the statistics of the training data.
TEST_F(RunOptions, BnStatsAreRecomputedOrRunning) {
  const auto evaluated = [&](const std::string& how) {
    return events(run("--model keras-convnet --max-steps 1 --eval-every 1 --bn-stats " + how).folder, "eval").at(0);
  };
  const json running = evaluated("running"), recomputed = evaluated("recompute");
  EXPECT_EQ(running.at("statistics_seconds"), 0.0);
  EXPECT_GT(recomputed.at("statistics_seconds"), 0.0);
  EXPECT_GT(std::abs(running.at("loss").get<double>() - recomputed.at("loss").get<double>()), 1e-3);
}

// The statistics of pixels and of batch norms are those of the images as they are.
TEST_F(RunOptions, AutoAugmentChangesTrainingAndNoStatistics) {
  const std::string options = "--model keras-convnet --max-steps 1 --lr 0 --eval-every 1 --mean measured ";
  const Run &plain = run(options), &augmented = run(options + "--auto-augment ta_wide --workers 2");
  const auto loss = [](const Run& run, const char* event) { return events(run.folder, event).at(0).at("loss"); };
  EXPECT_EQ(loss(augmented, "eval"), loss(plain, "eval"));
  EXPECT_NE(loss(augmented, "step"), loss(plain, "step"));
}

TEST_F(RunOptions, MetricsAddressIsListenedOn) {
  const Run& done = run("--max-steps 1 --metrics-port 45871 --metrics-address 127.0.0.2");
  EXPECT_EQ(count(done.output, "127.0.0.2"), 1) << done.output;  // named even if the port is taken
}

// Only a GPU can show what they do; see tests/gpu.
TEST_F(RunOptions, ForGpusAreRefusedWithoutOne) {
  for (const std::string option : {"--share-gpu", "--no-graph", "--programmatic-launch", "--device-data-mb=5"}) {
    const Outcome refused = start(option);
    EXPECT_EQ(refused.code, static_cast<int>(Exit::usage)) << refused.output;
    EXPECT_EQ(count(refused.output, option.substr(0, option.find('=')) + " is for GPUs"), 1) << refused.output;
  }
}

}  // namespace
}  // namespace ddp::testing
