#include "nn/memory_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
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
  EXPECT_EQ(plan.from_gradient[0].offset, -1);
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
  for (const Place& gradient : {plan.gradient[2][0], plan.from_gradient[2], plan.skip_gradient[2]})
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

// conv -> norm -> conv -> norm (+ skip: the first norm) -> a stage that takes whole batches
std::vector<PlannedStage> residual_block(bool sliced) {
  const SliceSamples slices = sliced ? SliceSamples{2, 4} : SliceSamples{};
  const auto conv = [&](int from) {
    return PlannedStage{.bytes = 6400,
                        .from = from,
                        .saves_input = true,
                        .has_gradient = true,
                        .slices = slices,
                        .reads_gradient_twice = true};
  };
  const auto norm = [&](int from, int skip) {
    return PlannedStage{.bytes = 6400,
                        .from = from,
                        .skip = skip,
                        .saves_input = true,
                        .saves_output = true,
                        .has_gradient = true,
                        .slices = sliced ? SliceSamples{1, 1} : SliceSamples{},
                        .sums = true,
                        .recomputes = skip == LayerSpec::kNone};
  };
  return {conv(LayerSpec::kImage),
          norm(0, LayerSpec::kNone),
          conv(1),
          norm(2, LayerSpec::kNone),
          conv(3),
          norm(4, 1),
          {.bytes = 640, .from = 5, .saves_input = true, .has_gradient = true}};
}

std::string text_of(const std::vector<Segment>& segments) {
  std::string text;
  for (const Segment& segment : segments) {
    text += segment.sliced ? fmt::format("{}:", segment.samples) : "all:";
    for (const int stage : segment.reduces) text += fmt::format(" r{}", stage);
    for (const auto& [stage, part] : segment.steps) text += fmt::format(" {}{}", "sfgb"[static_cast<int>(part)], stage);
    text += "; ";
  }
  return text;
}

// s and g: sums before the forward and the backward of a norm; f and b: these; r: the sums are complete.
TEST(Segments, EndWhereANormNeedsSumsOfTheWholeBatch) {
  const MemoryPlan plan = plan_memory(6400, residual_block(true), {.batch = 100, .bytes = 0});
  EXPECT_EQ(text_of(plan.segments.forward), "2: f0 s1; 2: r1 f1 f2 s3; 2: r3 f3 f4 s5; 1: r5 f5; all: f6; ");
  EXPECT_EQ(text_of(plan.segments.backward), "all: b6; 1: g5; 4: r5 b5 f3 b4 g3; 4: r3 b3 b2 g1; 4: r1 b1 b0; ");
}

TEST(Segments, OfWholeBatchesHaveOneStepEach) {
  const MemoryPlan plan = plan_memory(6400, residual_block(false), {.batch = 100, .bytes = 1 << 20});
  EXPECT_EQ(text_of(plan.segments.forward),
            "all: f0; all: s1; all: r1 f1; all: f2; all: s3; all: r3 f3; all: f4; all: s5; all: r5 f5; all: f6; ");
  EXPECT_EQ(text_of(plan.segments.backward),
            "all: b6; all: g5; all: r5 b5; all: b4; all: g3; all: r3 b3; all: b2; all: g1; all: r1 b1; all: b0; ");
}

// A projection's norm is read by the norm that adds only, so both sum the same gradient.
TEST(Segments, SumTheGradientOfBothPathsOfAnAddTogether) {
  std::vector<PlannedStage> stages = residual_block(true);
  stages[3].skip = LayerSpec::kNone;
  stages[3].saves_output = false;
  stages[5].skip = 3;  // 4 reads 1
  stages[4].from = 1;
  const MemoryPlan plan = plan_memory(6400, stages, {.batch = 100, .bytes = 0});
  EXPECT_EQ(text_of(plan.segments.forward), "2: f0 s1; 2: r1 f1 f2 s3; 2: r3 f3 f4 s5; 1: r5 f5; all: f6; ");
  EXPECT_EQ(text_of(plan.segments.backward), "all: b6; 1: g5 g3; 4: r5 r3 b5 b4 b3 b2 g1; 4: r1 b1 b0; ");
  stages[3].saves_output = true;  // its ReLU would change the gradient that stage 5 still reads
  EXPECT_EQ(text_of(plan_memory(6400, stages, {.batch = 100, .bytes = 0}).segments.backward),
            "all: b6; 1: g5; 4: r5 b5 b4 g3; 4: r3 b3 b2 g1; 4: r1 b1 b0; ");
}

// The first norm is read twice, in different segments, so the whole batch is stored; the second norm has a slice, and
// is computed again in the backward pass.
TEST(Segments, KeepWhatLivesInOneSegmentInTheMemoryOfASlice) {
  const MemoryPlan plan = plan_memory(6400, residual_block(true), {.batch = 100, .bytes = 0});
  EXPECT_FALSE(plan.value[1].of_slice);
  EXPECT_TRUE(plan.value[3].of_slice);
  EXPECT_TRUE(plan.recomputed[3].of_slice);
  EXPECT_NE(plan.recomputed[3], plan.value[3]);
  EXPECT_EQ(plan.recomputed[1], plan.value[1]);
  for (const int norm : {1, 3, 5}) EXPECT_TRUE(plan.from_gradient[norm].of_slice);
  EXPECT_TRUE(plan.from_gradient[2].of_slice);  // the second term of the first norm's gradient: its sum adds it at once
  EXPECT_FALSE(plan.from_gradient[4].of_slice);
}

// Slices double while their tensors fit, and end with the batch.
TEST(Segments, HaveAsManySamplesAsFitTheBudget) {
  const auto samples = [](int64_t bytes) {
    return plan_memory(6400, residual_block(true), {.batch = 100, .bytes = bytes}).segments.forward[0].samples;
  };
  EXPECT_EQ(samples(0), 2);  // the image and the output: 128 bytes a sample
  EXPECT_EQ(samples(128 * 8), 8);
  EXPECT_EQ(samples(128 * 16 - 1), 8);
  EXPECT_EQ(samples(1 << 20), 100);
}

// Counted by hand, in tensors of 6400 bytes.
TEST(Segments, MoveFewerBytes) {
  const auto traffic = [](bool sliced) {
    return plan_memory(6400, residual_block(sliced), {.batch = 100, .bytes = 64 * 100}).traffic;
  };
  // Forward: three convolutions 2 each, three norms 1 + 2, the skip 1, the last stage 1. The loss, and the backward of
  // the last stage, 1 + 1 each besides small ones. Backward: sums of norms 3 + 1 and of the second term 1, norms 2 + 1,
  // convolutions 3 and their gradients 1 (the first one has none).
  EXPECT_EQ(traffic(false) / 6400, (6 + 9 + 1 + 1) + 2 + (12 + 1) + 9 + (9 + 2));
  // Forward: image, raw 0; raw 0, norm 1, raw 2; raw 2, raw 4; raw 4, norm 1, norm 5; norm 5.
  // Backward: norm 5 and its gradient; its sum reads raw 4, norm 5, gradient, and writes; raw 4, gradient 5, raw 2, dz
  // 3; raw 2, dz 3, norm 1, raw 0, its second term, and writes; raw 0, dz 1, image.
  EXPECT_EQ(traffic(true) / 6400, (2 + 3 + 2 + 3 + 1) + 2 + 4 + 4 + 6 + 3);
}

}  // namespace
}  // namespace ddp
