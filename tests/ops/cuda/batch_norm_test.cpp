#include "tests/ops/cuda/fixture.h"

namespace ddp::testing {
namespace {

class EmulatedBatchNorm : public ::testing::TestWithParam<DType>, public EmulatedOps {
 protected:
  EmulatedBatchNorm() : EmulatedOps(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(, EmulatedBatchNorm, kTypes, type_name);

TEST_P(EmulatedBatchNorm, AgreesWithTheReference) { check_batch_norm(tested()); }
TEST_P(EmulatedBatchNorm, HandlesOneValue) { check_batch_norm_of_one_value(tested()); }

TEST(EmulatedRunningStats, AgreesWithTheReference) { check_running_stats(EmulatedOps().tested()); }

}  // namespace
}  // namespace ddp::testing
