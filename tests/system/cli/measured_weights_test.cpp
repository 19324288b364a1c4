// ddp_train evaluate gives the figures that a run printed. The residual networks are in measured_resnets_test.cpp.
#include "tests/system/cli/measured_weights.h"

namespace ddp::testing {
namespace {

TEST_F(MeasuredWeights, OfMlp) { expect_the_figures_of_the_run("--model mlp"); }
TEST_F(MeasuredWeights, OfLenet) { expect_the_figures_of_the_run("--model lenet"); }
TEST_F(MeasuredWeights, OfKerasConvnetOnTwoRanks) { expect_the_figures_of_the_run("--model keras-convnet", 2); }
TEST_F(MeasuredWeights, WithRunningAverages) {
  expect_the_figures_of_the_run("--model keras-convnet --bn-stats running");
}

}  // namespace
}  // namespace ddp::testing
