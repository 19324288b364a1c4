// Runs the checks of the emulated kernels (tests/ops/cuda/checks.h) on a GPU.
#include "tests/ops/cuda/checks.h"

#include "tests/gpu/fixture.h"

namespace ddp::testing {
namespace {

class ChecksOnGpu : public ::testing::TestWithParam<Precision> {
 protected:
  Tested tested() const { return {*gpu.device, *gpu.ops, *reference, gpu.ops->activation_dtype()}; }

  const std::unique_ptr<Device> cpu = make_cpu_device();
  const std::unique_ptr<Ops> reference = make_reference_ops(*cpu);
  const Gpu gpu{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(, ChecksOnGpu, ::testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(ChecksOnGpu, AveragePooling) { check_average_pooling(tested()); }
TEST_P(ChecksOnGpu, MaximumPooling) { check_maximum_pooling(tested()); }
TEST_P(ChecksOnGpu, GlobalAveragePooling) { check_global_average_pooling(tested()); }
TEST_P(ChecksOnGpu, BatchNorm) { check_batch_norm(tested()); }
TEST_P(ChecksOnGpu, BatchNormOfOneValue) { check_batch_norm_of_one_value(tested()); }
TEST_P(ChecksOnGpu, RunningStats) { check_running_stats(tested()); }
TEST_P(ChecksOnGpu, Dropout) { check_dropout(tested()); }
TEST_P(ChecksOnGpu, Optimizers) { check_optimizers(tested()); }
TEST_P(ChecksOnGpu, OptimizersPartByPart) { check_optimizer_parts(tested()); }
TEST_P(ChecksOnGpu, Lars) { check_lars(tested()); }
TEST_P(ChecksOnGpu, Add) { check_add(tested()); }
TEST_P(ChecksOnGpu, CopyOrAddAndBf16) { check_copy_or_add_and_bf16(tested()); }
TEST_P(ChecksOnGpu, SumOfSquaresAndClipScale) { check_sum_of_squares_and_clip_scale(tested()); }

}  // namespace
}  // namespace ddp::testing
