// The training loop: the order of its events, the rate of each step, and how it stops, resumes and compares replicas.
#include "tests/train/trainer.h"

#include "core/error.h"

#include <cmath>
#include <utility>

namespace ddp::testing {
namespace {

using TrainerTest = Training;

TEST_F(TrainerTest, EvaluatesAfterEveryKthEpochAndAtTheEnd) {
  data.test = std::make_unique<MemoryDataset>(small_data(40));
  TrainConfig config = steps(17);
  config.eval_every = 2;
  run(config);
  EXPECT_EQ(events.line,
            "1 2 3 4 5 speed:1 6 7 8 9 10 gradients speed:2 eval:2 11 12 13 14 15 speed:3 16 17 speed:4 eval:4");
  for (const StepResult& step : events.steps) {
    EXPECT_EQ(step.epoch, (step.step + 4) / 5);
    EXPECT_EQ(step.samples, step.step % 5 == 0 ? 2 : 4);
  }
  for (const auto& report : reports) {
    EXPECT_EQ(report->state.step, 17);
    EXPECT_EQ(report->state.epoch, 3);
    EXPECT_EQ(report->state.cursor, 8);
    EXPECT_EQ(report->state.samples, 3 * 18 + 2 * 4);
    EXPECT_EQ(report->samples, report->state.samples);
    EXPECT_EQ(report->updates, 17);
    EXPECT_FALSE(report->stopped);
    ASSERT_TRUE(report->evaluation && report->classes);
    EXPECT_EQ(report->evaluation->correct, report->classes->correct());
    EXPECT_EQ(report->evaluation->accuracy(), events.accuracies.back());
    EXPECT_EQ(report->checkpoint_step, -1);
  }
  run(steps(6));
  EXPECT_EQ(events.line, "1 2 3 4 5 speed:1 6 speed:2");
}

// Where the last step of an epoch has none, those of another step are reported.
TEST_F(TrainerTest, GradientsOfALastStepThatDoesNotLearnAreNotReported) {
  TrainConfig config = steps(17);
  config.last_step_learns = false;
  run(config);
  EXPECT_EQ(events.line, "1 2 3 4 5 speed:1 6 7 8 9 10 speed:2 11 12 13 14 15 speed:3 16 17 gradients speed:4");
}

// The rate depends on the samples before the step: 18 in an epoch, 36 in all.
TEST_F(TrainerTest, RateFollowsTheSamplesOfTheRun) {
  TrainConfig config = steps(10);
  config.schedule = {.kind = ScheduleDesc::Kind::linear, .lr = 0.18, .total_epochs = 2};
  config.save_every.steps = 7;
  run(config);
  const std::vector<double> expected{0.18, 0.16, 0.14, 0.12, 0.10, 0.09, 0.07, 0.05, 0.03, 0.01};
  ASSERT_EQ(events.steps.size(), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(events.steps[i].lr, expected[i], 1e-15) << i;
  run(config, {}, folder / "step-00000007");
  ASSERT_EQ(events.line, "8 9 10 speed:2");
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(events.steps[i].lr, expected[7 + i], 1e-15) << i;
}

// Rank 1 is asked to stop at its n-th question: before the first step, inside an epoch, and in the last step of one,
// whose evaluation the resumed run makes up for.
TEST_F(TrainerTest, StopsAllRanksAtOneStepAndResumesToTheSameWeights) {
  TrainConfig config = steps(15);
  config.eval_every = 1;
  run(config);
  const std::vector<float> undisturbed = weights;
  const std::vector<double> accuracies = events.accuracies;
  ASSERT_EQ(accuracies.size(), 3u);
  for (int n = 1; n <= 6; ++n) {
    SCOPED_TRACE(n);
    run(config, [n](TrainConfig& mine, Replica& replica) {
      if (replica.communicator.rank() == 1) mine.stop_requested = [n, asked = 0]() mutable { return ++asked >= n; };
    });
    for (const auto& report : reports) {
      EXPECT_TRUE(report->stopped);
      EXPECT_FALSE(report->classes);
      EXPECT_EQ(report->state.step, reports[0]->state.step);
    }
    const int64_t stopped = reports[0]->state.step;
    EXPECT_TRUE(n == 1 ? stopped == 0 : n - 1 <= stopped && stopped <= n + 1) << stopped;
    EXPECT_TRUE(events.accuracies.empty());
    EXPECT_EQ(reports[0]->state.evaluation_due, stopped == kStepsPerEpoch);
    EXPECT_EQ(reports[0]->checkpoint_step, stopped);
    EXPECT_EQ(checkpoints().back(), stopped);

    run(config, {}, reports[0]->checkpoint);
    EXPECT_EQ(events.line.starts_with("eval:1 6 "), stopped == kStepsPerEpoch) << events.line;
    EXPECT_EQ(events.accuracies, accuracies);
    EXPECT_EQ(weights, undisturbed);
    std::filesystem::remove_all(folder);
  }
}

// Ten batches, after eight of which the ranks ask each other.
TEST_F(TrainerTest, StopsInAnEvaluation) {
  data.test = std::make_unique<MemoryDataset>(small_data(40));
  TrainConfig config = steps(5);
  config.eval_every = 1;
  run(config, [](TrainConfig& mine, Replica& replica) {
    if (replica.communicator.rank() == 1)
      mine.stop_requested = [asked = 0]() mutable { return ++asked > 1 + kStepsPerEpoch; };
  });
  EXPECT_EQ(events.line, "1 2 3 4 5 speed:1");
  for (const auto& report : reports) {
    EXPECT_TRUE(report->stopped && report->state.evaluation_due);
    EXPECT_FALSE(report->evaluation || report->classes);
    EXPECT_EQ(report->state.step, 5);
  }
  run(config, {}, reports[0]->checkpoint);
  EXPECT_EQ(events.line, "eval:1");
  EXPECT_FALSE(reports[0]->state.evaluation_due);
}

TEST_F(TrainerTest, RunThatHasEndedIsOnlyEvaluatedAgain) {
  TrainConfig config = steps(7);
  config.eval_every = 1;
  config.save_every.steps = 7;
  run(config);
  const auto saved = reports[0]->checkpoint;
  for (const int64_t count : {7, 6}) {  // also with fewer steps than are done
    config.max_steps = count;
    run(config, {}, saved);
    EXPECT_EQ(events.line, "eval:2");
    EXPECT_TRUE(events.saves.empty());
    EXPECT_EQ(reports[0]->checkpoint, saved);
    EXPECT_EQ(reports[0]->checkpoint_step, 7);
  }
}

// Rank 1 changes a weight before its third step.
TEST_F(TrainerTest, ComparesReplicasAtTheEndOfEpochsAndWhereItIsAskedTo) {
  for (const int64_t every : {0, 2, 1}) {
    TrainConfig config = steps(10);
    config.check_every = every;
    EXPECT_THROW(run(config,
                     [](TrainConfig& mine, Replica& replica) {
                       if (replica.communicator.rank() == 0) return;
                       mine.batch_source = [&replica](NextBatch next) -> NextBatch {
                         return [&replica, next, calls = 0]() mutable -> const DeviceBatch& {
                           if (++calls == 3) replica.weights()[0] += 1;
                           return next();
                         };
                       };
                     }),
                 CollectiveError);
    EXPECT_EQ(events.line, every == 0 ? "1 2 3 4 5" : every == 2 ? "1 2 3 4" : "1 2 3");
  }
}

// A weight is NaN in the first step, which the checkpoint says is the second or the third bad one.
TEST_F(TrainerTest, LimitOfBadStepsCountsThoseBeforeAResume) {
  for (const int64_t before : {1, 2}) {
    TrainConfig config = steps(6);
    config.start = {.step = 3, .skipped = 2, .skipped_in_a_row = before};
    config.step.skip_limit = 2;
    const auto poison = [](TrainConfig& mine, Replica& replica) {
      mine.batch_source = [&replica](NextBatch next) -> NextBatch {
        const float kept = std::exchange(replica.weights()[0], NAN);
        return [&replica, next, kept, calls = 0]() mutable -> const DeviceBatch& {
          if (++calls == 2) replica.weights()[0] = kept;
          replica.model.bind();
          return next();
        };
      };
    };
    if (before == 2) {
      EXPECT_THROW(run(config, poison), CollectiveError);
    } else {
      run(config, poison);
      EXPECT_EQ(reports[0]->state.skipped, 3);
      EXPECT_EQ(reports[0]->state.skipped_in_a_row, 0);
      EXPECT_EQ(reports[0]->updates, 2);
    }
  }
}

TEST_F(TrainerTest, CountsBeyond32Bits) {
  const int64_t begin = kStepsPerEpoch << 33, epoch = int64_t{1} << 33;
  TrainConfig config = steps(begin + 6);
  config.start = {.step = begin, .epoch = epoch, .samples = kSamples << 33};
  config.save_every.steps = begin + 6;
  run(config);
  ASSERT_EQ(events.steps.size(), 6u);
  EXPECT_EQ(events.steps.back().step, begin + 6);
  EXPECT_EQ(events.steps.front().epoch, epoch + 1);
  EXPECT_EQ(events.steps.back().epoch, epoch + 2);
  const RunState state = read_run_state(reports[0]->checkpoint);
  EXPECT_EQ(state.step, begin + 6);
  EXPECT_EQ(state.epoch, epoch + 1);
  EXPECT_EQ(state.cursor, 4);
  EXPECT_EQ(state.samples, (kSamples << 33) + 18 + 4);
}

}  // namespace
}  // namespace ddp::testing
