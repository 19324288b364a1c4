// Evaluations that change the learning rate or end the run, also through a resume inside an epoch. In each epoch the
// network predicts one class, of which the test data have 11, 12, 9 or 8 samples: the accuracies of the epochs are 8,
// 11, 9, 11, 12 and 8 of 40.
#include "tests/train/trainer.h"

#include <algorithm>

namespace ddp::testing {
namespace {

class TrainerJudgement : public Training {
 protected:
  TrainerJudgement() {
    data.test = std::make_unique<MemoryDataset>(small_data(40));
    config = steps(30);
    config.eval_every = 1;
    config.save_every.steps = 7;
    config.schedule.lr = 1e-7;
  }

  static void predict(TrainConfig& mine, Replica& replica) {
    const auto bias = std::ranges::find_if(
        replica.parameters, [](const Parameter& p) { return p.out == 4 && p.role == Parameter::Role::bias; });
    float* const biases = replica.weights() + bias->offset;
    mine.batch_source = [&replica, biases, step = mine.start.step](NextBatch next) -> NextBatch {
      return [&replica, biases, next, step]() mutable -> const DeviceBatch& {
        constexpr int kPredicted[] = {3, 0, 2, 0, 1, 3};
        const int64_t epoch = step++ / kStepsPerEpoch;
        std::fill_n(biases, 4, 0.0f);
        biases[kPredicted[epoch]] = 1000.0f;
        replica.model.bind();
        return next();
      };
    };
  }
  std::filesystem::path saved(int64_t step) const { return folder / fmt::format("step-{:08}", step); }
  // Of the epochs, in units of the first rate.
  std::vector<double> rates() const {
    std::vector<double> found;
    for (const StepResult& step : events.steps) found.push_back(step.lr / 1e-7);
    return found;
  }

  TrainConfig config;
};

TEST_F(TrainerJudgement, EarlyStopEndsTheRunAtTheSameStepThroughAResume) {
  config.early_stop = 2;
  run(config, predict);
  EXPECT_TRUE(events.line.ends_with("speed:4 eval:4 early_stop:4@2")) << events.line;
  for (const auto& report : reports) {
    EXPECT_FALSE(report->stopped);
    EXPECT_EQ(report->state.step, 20);
    ASSERT_TRUE(report->early_stop && report->classes);
    EXPECT_EQ(report->early_stop->bad, 2);
    EXPECT_EQ(report->early_stop->best, 11 / 40.0);
  }
  EXPECT_EQ(checkpoints(), (std::vector<int64_t>{7, 14, 20}));
  for (const int64_t from : {7, 14}) {
    run(config, predict, saved(from));
    EXPECT_TRUE(events.line.ends_with("speed:4 eval:4 early_stop:4@2")) << events.line;
    EXPECT_EQ(reports[1]->state.step, 20);
  }
  run(config, predict, saved(20));  // it has ended
  EXPECT_EQ(events.line, "eval:4 early_stop:4@2");
  EXPECT_EQ(reports[0]->state.step, 20);
  config.early_stop = 3;
  run(config, predict, saved(20));
  EXPECT_TRUE(events.line.ends_with("speed:6 eval:6")) << events.line;
  EXPECT_FALSE(reports[0]->early_stop);
}

TEST_F(TrainerJudgement, PlateauGivesTheSameRatesThroughAResume) {
  config.schedule.kind = ScheduleDesc::Kind::plateau;
  config.schedule.gamma = 0.5;
  config.schedule.plateau = {.metric = PlateauDesc::Metric::accuracy, .patience = 0, .threshold = 0};
  run(config, predict);
  std::vector<double> expected;
  for (const double of_epoch : {1.0, 1.0, 1.0, 0.5, 0.25, 0.25})
    expected.insert(expected.end(), kStepsPerEpoch, of_epoch);
  EXPECT_EQ(rates(), expected);
  EXPECT_EQ(reports[1]->state.plateau->factor, 0.125);

  // A part of the run that ends inside an epoch has one more evaluation, which does not count.
  config.max_steps = 18;
  run(config, predict, saved(14));
  ASSERT_TRUE(events.line.ends_with("eval:4")) << events.line;
  config.max_steps = 30;
  for (const int64_t from : {14, 18}) {
    run(config, predict, saved(from));
    EXPECT_EQ(rates(), std::vector<double>(expected.begin() + from, expected.end())) << from;
  }
}

}  // namespace
}  // namespace ddp::testing
