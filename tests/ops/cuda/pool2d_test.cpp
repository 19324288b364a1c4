#include "tests/ops/cuda/fixture.h"

namespace ddp::testing {
namespace {

class EmulatedPool2d : public ::testing::TestWithParam<DType>, public EmulatedOps {
 protected:
  EmulatedPool2d() : EmulatedOps(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(, EmulatedPool2d, kTypes, type_name);

TEST_P(EmulatedPool2d, Average) { check_average_pooling(tested()); }
TEST_P(EmulatedPool2d, Maximum) { check_maximum_pooling(tested()); }
TEST_P(EmulatedPool2d, GlobalAverage) { check_global_average_pooling(tested()); }

}  // namespace
}  // namespace ddp::testing
