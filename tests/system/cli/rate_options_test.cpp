// The rate of each step, as in metrics.jsonl, for the options of the learning rate. Three steps an epoch, of 24, 24 and
// 16 samples, over four epochs; the run is stopped after the fifth step and resumed.
#include "tests/system/cli/option_runs.h"

namespace ddp::testing {
namespace {

struct Rates {
  const char* options;
  std::vector<double> expected;
};

const std::vector<Rates> kRates{
    {"--lr 0.05 --lr-scale linear --lr-base-batch 12 --lr-scheduler step --lr-step-size 0.75 --lr-gamma 0.5",
     {0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125, 0.0125, 0.00625, 0.00625, 0.003125}},
    {"--lr 0.1 --lr-scheduler multistep --lr-milestones 0.5,1.75 --lr-warmup-epochs 1 --lr-warmup-method constant "
     "--lr-warmup-decay 0.25",
     {0.025, 0.025, 0.025, 0.1, 0.1, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001}},
    {"--lr 0.05 --lr-scale sqrt --lr-base-batch 6 --lr-scheduler cosine --lr-min 0.02",
     {0.1, 0.09827761, 0.09325878, 0.08828427, 0.07885587, 0.06780361, 0.06, 0.04838861, 0.03777719, 0.03171573,
      0.02472315, 0.02076859}},
    {"--lr 0.1 --lr-scheduler linear --lr-min 0.02 --lr-warmup-epochs 0.5 --lr-warmup-decay 0.1",
     {0.01, 0.0775, 0.09428571, 0.08857143, 0.08, 0.07142857, 0.06571429, 0.05714286, 0.04857143, 0.04285714,
      0.03428571, 0.02571429}},
    {"--lr 0.1 --lr-scheduler polynomial --lr-power 2 --lr-warmup-epochs 1 --lr-warmup-decay 0.4",
     {0.04, 0.0625, 0.085, 0.1, 0.0765625, 0.05625, 0.04444444, 0.02934028, 0.01736111, 0.01111111, 0.0043402778,
      0.00069444444}},
    {"--lr 0.1 --lr-scheduler onecycle --lr-pct-start 0.5 --lr-div-factor 10 --lr-final-div-factor 4 --lr-anneal "
     "linear",
     {0.01, 0.028, 0.046, 0.064, 0.082, 0.1, 0.08375, 0.0675, 0.05125, 0.035, 0.01875, 0.0025}}};

class RateOptions : public OptionRuns {};

TEST_F(RateOptions, GiveTheseRatesThroughAResume) {
  for (const Rates& rates : kRates) {
    const std::string options = fmt::format("--batch-size 24 --epochs 4 {} ", rates.options);
    const Run& cut = run(options + "--max-steps 5 --save-every 5steps");
    const Outcome resumed = start(options + "--max-steps 12 --resume " + cut.folder.string());
    ASSERT_EQ(resumed.code, 0) << resumed.output;
    EXPECT_EQ(count(resumed.output, " at step 5\n"), 1) << resumed.output;
    const auto given = cut.steps<double>("lr");
    ASSERT_EQ(given.size(), rates.expected.size()) << rates.options;
    for (size_t i = 0; i < given.size(); ++i)
      EXPECT_NEAR(given[i], rates.expected[i], 1e-6 * rates.expected[i]) << rates.options << ", step " << i + 1;
  }
}

}  // namespace
}  // namespace ddp::testing
