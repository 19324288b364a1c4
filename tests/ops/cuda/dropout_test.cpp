#include "tests/ops/cuda/fixture.h"

namespace ddp::testing {
namespace {

class EmulatedDropout : public ::testing::TestWithParam<DType>, public EmulatedOps {
 protected:
  EmulatedDropout() : EmulatedOps(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(, EmulatedDropout, kTypes, type_name);

TEST_P(EmulatedDropout, AgreesWithTheReference) { check_dropout(tested()); }

}  // namespace
}  // namespace ddp::testing
