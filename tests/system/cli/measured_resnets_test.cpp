// ddp_train evaluate gives the figures that a run of a residual network printed.
#include "tests/system/cli/measured_weights.h"

namespace ddp::testing {
namespace {

using MeasuredResnets = MeasuredWeights;

TEST_F(MeasuredResnets, Resnet18) { expect_the_figures_of_the_run("--model resnet18"); }
TEST_F(MeasuredResnets, TorchvisionResnet18OnThreeRanks) {
  expect_the_figures_of_the_run("--model torchvision-resnet18 --sync-bn", 3);
}
TEST_F(MeasuredResnets, TorchvisionResnet50) { expect_the_figures_of_the_run("--model torchvision-resnet50"); }

}  // namespace
}  // namespace ddp::testing
