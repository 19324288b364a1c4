#include "nn/memory_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp {
namespace {

// Values and gradient parts that are needed at the same time do not overlap.
TEST(MemoryPlan, GradientPartsDoNotOverlap) {
  // 0 -> 1 -> 2 (+ skip 0) -> 3; stages 1 and 2 save their inputs
  const std::vector<PlannedStage> stages = {
      {.bytes = 256, .from = LayerSpec::kImage, .saves_input = true, .saves_output = true, .has_gradient = true},
      {.bytes = 256, .from = 0, .saves_input = true, .has_gradient = true},
      {.bytes = 256, .from = 1, .skip = 0, .saves_input = true, .saves_output = true, .has_gradient = true},
      {.bytes = 64, .from = 2, .saves_input = true, .has_gradient = true}};
  const MemoryPlan plan = plan_memory(128, stages);
  ASSERT_EQ(plan.gradient[0].size(), 2u);  // from stage 2 by the skip, from stage 1 by its input
  EXPECT_EQ(plan.gradient[0][0], plan.gradient[2][0]);
  EXPECT_EQ(plan.gradient[0][1], plan.from_gradient[1]);
  EXPECT_NE(plan.gradient[0][0], plan.gradient[0][1]);
  EXPECT_NE(plan.from_gradient[2], plan.gradient[2][0]);
  EXPECT_EQ(plan.from_gradient[0], -1);
  for (const int stage : {0, 1, 2}) EXPECT_NE(plan.value[stage], plan.value[(stage + 1) % 3]);
}

// A stage that separates the gradients of its inputs writes both to memory of their own, and its saved inputs live
// until then.
TEST(MemoryPlan, SeparatedGradientHasItsOwnMemory) {
  // 0 -> 1 -> 2 (+ skip 0, separated) -> 3, and 3 reads 2 alone
  const std::vector<PlannedStage> stages = {
      {.bytes = 256, .from = LayerSpec::kImage, .has_gradient = true},
      {.bytes = 256, .from = 0, .has_gradient = true},
      {.bytes = 256, .from = 1, .skip = 0, .saves_input = true, .has_gradient = true, .separates_skip = true},
      {.bytes = 256, .from = 2, .has_gradient = true},
      {.bytes = 64, .from = 3, .has_gradient = true}};
  const MemoryPlan plan = plan_memory(128, stages);
  ASSERT_EQ(plan.gradient[0].size(), 2u);  // of stage 2, then of stage 1
  EXPECT_EQ(plan.gradient[0][0], plan.skip_gradient[2]);
  EXPECT_EQ(plan.gradient[0][1], plan.from_gradient[1]);
  for (const int64_t gradient : {plan.gradient[2][0], plan.from_gradient[2], plan.skip_gradient[2]})
    for (const int saved : {0, 1}) EXPECT_NE(gradient, plan.value[saved]);
  EXPECT_NE(plan.skip_gradient[2], plan.from_gradient[2]);
  EXPECT_NE(plan.skip_gradient[2], plan.gradient[2][0]);
  EXPECT_NE(plan.from_gradient[2], plan.gradient[2][0]);
  EXPECT_NE(plan.value[3], plan.value[0]);  // stage 3 runs while both inputs are saved
  EXPECT_NE(plan.value[3], plan.value[1]);
}

// The loss writes its gradient over the logits, unless the backward of the last stage reads them.
TEST(MemoryPlan, GradientOfTheLossTakesThePlaceOfTheLogits) {
  std::vector<PlannedStage> stages = {
      {.bytes = 256, .from = LayerSpec::kImage, .saves_output = true, .has_gradient = true},
      {.bytes = 1024, .from = 0, .saves_input = true, .has_gradient = true},
      {.bytes = 1024, .view = true, .from = 1}};
  const MemoryPlan in_place = plan_memory(128, stages);
  EXPECT_EQ(in_place.gradient[1], std::vector{in_place.value[1]});
  EXPECT_LT(in_place.bytes, 2 * 1024);
  EXPECT_NE(in_place.value[0], in_place.value[1]);
  EXPECT_NE(in_place.from_gradient[1], in_place.value[1]);
  stages[1].saves_output = true;
  const MemoryPlan apart = plan_memory(128, stages);
  ASSERT_EQ(apart.gradient[1].size(), 1u);
  EXPECT_NE(apart.gradient[1][0], apart.value[1]);
}

}  // namespace
}  // namespace ddp
