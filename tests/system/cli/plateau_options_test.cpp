// What evaluations decide about the rate and the end of a run. At these small rates no evaluation gets better by a
// hundredth, and the loss still falls a little in each epoch.
#include "tests/system/cli/option_runs.h"

namespace ddp::testing {
namespace {

using nlohmann::json;

class PlateauOptions : public OptionRuns {
 protected:
  const std::string plateau_ = "--eval-every 1 --lr 0.0001 --lr-scheduler plateau --lr-gamma 0.5 ";

  // The rate of each epoch, as a multiple of the first one.
  static std::vector<double> rates(const Run& run) {
    const auto lr = run.steps<double>("lr");
    std::vector<double> of_epochs;
    for (size_t step = 0; step < lr.size(); step += kImages / kBatch) of_epochs.push_back(lr[step] / lr[0]);
    return of_epochs;
  }
};

TEST_F(PlateauOptions, ReduceTheRateByTheEvaluations) {
  EXPECT_EQ(rates(run(plateau_ + "--epochs 8 --lr-plateau-threshold 0.01 --lr-plateau-patience 1 "
                                 "--lr-plateau-cooldown 1")),
            (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  const std::string strict = plateau_ + "--epochs 4 --lr-plateau-threshold 0 --lr-plateau-patience 0 ";
  EXPECT_EQ(rates(run(strict)), (std::vector<double>{1, 1, 1, 1}));
  EXPECT_EQ(rates(run(strict + "--lr-plateau-metric acc")), (std::vector<double>{1, 1, 0.5, 0.25}));
}

TEST_F(PlateauOptions, EarlyStopEndsTheRun) {
  const std::string options = "--lr 0.0001 --epochs 8 --eval-every 1 --save-every 1epochs --early-stop ";
  const Run& done = run(options + "2");
  const std::string says = "epoch 3/8 ends the run early: 2 evaluations in a row without a better accuracy than ";
  EXPECT_EQ(count(done.output, says), 1) << done.output;
  EXPECT_EQ(count(done.output, " of epoch 1\n"), 1) << done.output;
  const json summary = json::parse(read_file(done.folder / "summary.json")), stop = summary.at("early_stop");
  EXPECT_EQ(summary.at("steps"), 12);
  EXPECT_EQ(
      stop,
      (json{{"epoch", 3}, {"evaluations", 2}, {"best_accuracy", summary.at("best_accuracy")}, {"best_epoch", 1}}));
  EXPECT_EQ(events(done.folder, "early_stop").size(), 1u);

  // The same command ends at once; more evaluations go on.
  const std::string resume = " --resume " + done.folder.string();
  const Outcome again = start(options + "2" + resume);
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(count(again.output, says), 1) << again.output;
  EXPECT_EQ(done.steps<int64_t>("step").size(), 12u);
  EXPECT_EQ(events(done.folder, "early_stop").size(), 1u);
  const Outcome longer = start(options + "3" + resume);
  EXPECT_EQ(longer.code, 0) << longer.output;
  EXPECT_EQ(count(longer.output, "epoch 4/8 ends the run early: 3 evaluations"), 1) << longer.output;
  EXPECT_EQ(done.steps<int64_t>("step").size(), 16u);
}

}  // namespace
}  // namespace ddp::testing
