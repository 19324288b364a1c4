#include "report/run_record.h"

#include "core/error.h"
#include "tests/report/run_folder.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddp::report {
namespace {

TEST(RunRecord, HasWhatTheFolderTells) {
  const RunRecord run = RunFolder().read();
  EXPECT_EQ(run.steps, 20);
  EXPECT_EQ(run.epoch, 2);
  EXPECT_EQ(run.world_size(), 2);
  EXPECT_EQ(run.unread_lines, 0);
  EXPECT_EQ(run.loss.points().size(), 20u);
  EXPECT_DOUBLE_EQ(run.throughput.mean(), 20'000);  // 100 samples in 5 ms
  ASSERT_EQ(run.evaluations.size(), 2u);
  EXPECT_DOUBLE_EQ(run.evaluations[1].accuracy, 0.8);
  ASSERT_TRUE(run.ended());
  EXPECT_EQ(run.summary->accuracy, 0.8);
  EXPECT_EQ(run.summary->speed.size(), 1u);
  ASSERT_EQ(run.summary->classes.size(), 2u);
  EXPECT_TRUE(std::isnan(run.summary->classes[0].precision));
  ASSERT_TRUE(run.confusion);
  EXPECT_EQ(run.confusion->count(0, 1), 3);
}

TEST(RunRecord, RanksHaveTheirMeanPartsOfAStep) {
  const RunRecord run = RunFolder().read();
  ASSERT_EQ(run.ranks.size(), 2u);
  EXPECT_DOUBLE_EQ(run.ranks[0].compute, 4);  // 3 and 5 in ten steps each
  EXPECT_DOUBLE_EQ(run.ranks[1].exposed_comm, 0.25);
  ASSERT_EQ(run.speeds.size(), 2u);
  ASSERT_EQ(run.speeds[0].ranks.size(), 1u);
  EXPECT_EQ(run.speeds[0].ranks[0].compute, 8);
  EXPECT_DOUBLE_EQ(run.speeds[1].noise_scale, 320.5);
}

TEST(RunRecord, AnotherNumberOfRanksBeginsNewMeans) {
  const RunFolder folder;
  std::ofstream(folder.folder / "metrics.jsonl", std::ios::app)
      << R"({"event":"run","step":20,"world_size":1})"
      << "\n"
      << R"({"event":"speed","epoch":3,"step":30,"ranks":[{"data_ms":1,"compute_ms":7,"exposed_comm_ms":0}]})"
      << "\n";
  const RunRecord run = folder.read();
  EXPECT_EQ(run.world_size(), 1);
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_DOUBLE_EQ(run.ranks[0].compute, 7);
}

TEST(RunRecord, OfARunThatGoesOnHasNoResults) {
  const RunFolder folder;
  std::filesystem::remove(folder.folder / "summary.json");
  EXPECT_FALSE(folder.read().ended());
  EXPECT_FALSE(folder.read().confusion);
  EXPECT_EQ(folder.read().world_size(), 2);
}

TEST(RunRecord, ResultsOfTheRunBeforeItWasResumedDoNotCount) {
  const RunFolder folder;
  std::ofstream(folder.folder / "metrics.jsonl", std::ios::app) << step_line(21, "1");
  EXPECT_FALSE(folder.read().ended());
  EXPECT_FALSE(folder.read().confusion);
}

TEST(RunRecord, BeforeTheFirstEpochEndsRankZeroHasTimes) {
  const RunFolder folder;
  folder.folder.write("metrics.jsonl", step_line(1, "2") + step_line(2, "null", 6) + "broken\n");
  std::filesystem::remove(folder.folder / "summary.json");
  const RunRecord run = folder.read();
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_DOUBLE_EQ(run.ranks[0].compute, 5);
  EXPECT_EQ(run.loss.points().size(), 1u);
  EXPECT_EQ(run.lr.points().size(), 2u);
  EXPECT_NEAR(run.throughput.mean(), 200 / 0.012, 1e-6);  // all samples over all seconds
  EXPECT_EQ(run.unread_lines, 1);
  EXPECT_EQ(run.world_size(), 0);
}

TEST(RunRecord, NamesWhatIsNoRun) {
  const TempFolder folder;
  const auto error = [](const std::filesystem::path& path) -> std::string {
    try {
      read_run(path, "x", {});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::data);
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(error(folder / "a"), (folder / "a").string() + " does not exist; give the --output-dir of a training");
  EXPECT_NE(error(folder.path()).find("it has no metrics.jsonl"), std::string::npos);
  folder.write("metrics.jsonl", "");
  EXPECT_EQ(error(folder.path()), "none");
  folder.write("summary.json", "{");
  EXPECT_NE(error(folder.path()).find("summary.json is not JSON"), std::string::npos);
  folder.write("summary.json", "[]");
  EXPECT_NE(error(folder.path()).find("summary.json is no JSON object"), std::string::npos);
}

}  // namespace
}  // namespace ddp::report
