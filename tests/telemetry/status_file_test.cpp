#include "telemetry/status_file.h"

#include "core/error.h"
#include "core/read_file.h"
#include "tests/temp_folder.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

namespace ddp {
namespace {

namespace fs = std::filesystem;

class AStatusFile : public ::testing::Test {
 protected:
  StatusFileConfig config() {
    return {.folder = run,
            .host = "here",
            .require_in_place = [this] { require(fs::exists(run), Exit::output, "removed"); },
            .ranks =
                [] {
                  return std::vector<RankStatus>{{.host = "here", .silent_seconds = {}},
                                                 {.rank = 1, .host = "there", .silent_seconds = {}}};
                },
            .epochs = 2,
            .steps_per_epoch = 5,
            .total_steps = 10};
  }
  RunStatus read() const { return parse_status(read_whole_file(run / "status.json", kMostStatusBytes), "status.json"); }
  static StepResult result(int64_t step) {
    StepResult step_result;
    step_result.step = step;
    step_result.epoch = (step + 4) / 5;
    step_result.loss = 1.0 / static_cast<double>(step);
    step_result.samples = 8;
    return step_result;
  }

  const TempFolder temp;
  const fs::path run = temp.write("run/config.toml").parent_path();
};

TEST_F(AStatusFile, FollowsTheRun) {
  StatusFile file(config());
  EXPECT_EQ(read().step, 0);
  EXPECT_EQ(read().ranks.size(), 2U);
  for (int64_t step = 1; step <= 7; ++step) file.step(result(step));
  for (int i = 0; i < 500 && read().step != 7; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  RunStatus now = read();
  EXPECT_EQ(now.state, RunStatus::State::running);
  EXPECT_EQ(now.step, 7);
  EXPECT_EQ(now.steps, 10);
  EXPECT_EQ(now.progress.epoch, 2);
  EXPECT_EQ(now.progress.step, 2);
  EXPECT_EQ(now.progress.loss, 1.0 / 7);
  for (int64_t step = 8; step <= 10; ++step) file.step(result(step));
  file.evaluation(2, 10, {.correct = 3, .samples = 4}, 0.1);
  file.close(false);
  now = read();
  EXPECT_EQ(now.state, RunStatus::State::done);
  EXPECT_EQ(now.step, 10);
  EXPECT_EQ(now.progress.step, 5);
  EXPECT_EQ(now.accuracy, 0.75);
  EXPECT_FALSE(now.test_loss);
}

TEST_F(AStatusFile, HasTheFiguresOfTokens) {
  StatusFile file(config());
  StepResult of_tokens = result(1);
  of_tokens.sequence_length = 256;
  file.step(of_tokens);
  file.evaluation(1, 5, {.correct = 3, .samples = 1, .sequence_length = 4, .loss = 2.5}, 0.1);
  file.close(false);
  EXPECT_EQ(read().progress.sequence_length, 256);
  EXPECT_EQ(read().accuracy, 0.75);
  EXPECT_EQ(read().test_loss, 2.5);
}

TEST_F(AStatusFile, AResumedRunIsInTheEpochOfItsLastStep) {
  for (const auto& [done, epoch, step] : {std::tuple{0, 1, 0}, {4, 1, 4}, {5, 1, 5}, {6, 2, 1}, {10, 2, 5}}) {
    StatusFileConfig resumed = config();
    resumed.done = done;
    const StatusFile file(resumed);
    EXPECT_EQ(read().progress.epoch, epoch) << done;
    EXPECT_EQ(read().progress.step, step) << done;
  }
}

TEST_F(AStatusFile, SaysHowTheRunHasEnded) {
  {
    StatusFile file(config());
    for (int64_t step = 1; step <= 10; ++step) file.step(result(step));
    file.close(true);  // in the last evaluation
    EXPECT_EQ(read().state, RunStatus::State::stopped);
  }
  EXPECT_EQ(read().state, RunStatus::State::stopped);
  { const StatusFile file(config()); }
  EXPECT_EQ(read().state, RunStatus::State::failed);
}

TEST_F(AStatusFile, IsNotWrittenThroughALink) {
  const fs::path victim = temp.write("victim", "mine");
  fs::create_symlink(victim, run / "status.json");
  StatusFile(config()).close(false);
  EXPECT_EQ(read_whole_file(victim, 100), "mine");
  EXPECT_FALSE(fs::is_symlink(run / "status.json"));
}

TEST_F(AStatusFile, MakesNoNewFolder) {
  StatusFile file(config());
  fs::remove_all(run);
  file.close(false);
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(AStatusFile, AnErrorIsOneWarning) {
  temp.write("run/status.json/in-the-way");
  ::testing::internal::CaptureStderr();
  {
    StatusFile file(config());
    file.step(result(1));
    file.close(false);
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_HAS(text, "status.json");
  EXPECT_EQ(text.find("warning"), text.rfind("warning")) << text;
  for (const auto& entry : fs::directory_iterator(run)) EXPECT_LACKS(entry.path().string(), ".tmp-");
}

}  // namespace
}  // namespace ddp
