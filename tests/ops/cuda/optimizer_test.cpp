#include "tests/ops/cuda/fixture.h"

namespace ddp::testing {
namespace {

class EmulatedOptimizer : public ::testing::Test, public EmulatedOps {};

TEST_F(EmulatedOptimizer, EachKind) { check_optimizers(tested()); }
TEST_F(EmulatedOptimizer, PartByPart) { check_optimizer_parts(tested()); }
TEST_F(EmulatedOptimizer, Lars) { check_lars(tested()); }

// The chunk size grows with the model, so the number of chunks stays small.
TEST_F(EmulatedOptimizer, HandlesMoreElementsThanTheGrid) {
  const int64_t count = 2'200'001;
  const OptimizerTensor tensors[] = {{0, count, true}};
  const OnDevice<float> w(*device, Values(count, 1.0f)), g(*device, Values(count, 2.0f));
  const OnDevice<OptimizerScalars> scalars(*device, {{.lr = -1}});
  ops->optimizer({}, tensors)->step({w.data(), g.data(), 0, count, {}}, scalars.data(), {});
  EXPECT_EQ(w.values(), Values(count, 3.0f));
}

}  // namespace
}  // namespace ddp::testing
