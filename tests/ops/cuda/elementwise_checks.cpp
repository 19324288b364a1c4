#include "tests/ops/cuda/checks.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace ddp::testing {

void check_add(const Tested& t) {
  for (const Shape& shape : {Shape{1, {1, 1, 1}}, Shape{3, {1, 1, 7}}, Shape{5, {40, 30, 12}}})
    for (const int64_t before : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} elements after {}", shape.elements(), before));
      Values a = t.random(shape.elements(), 1), b = t.random(shape.elements(), 2), sum(shape.elements());
      t.reference.add(on_host(a, shape), on_host(b, shape), on_host(sum, shape));
      sum = rounded(sum, t.type);
      const OnDeviceTensor da(t.device, shape, t.type, a, before), db(t.device, shape, t.type, b, before),
          dy(t.device, shape, t.type, before), again(t.device, shape, t.type, b, before);
      t.ops.add(da.tensor(), db.tensor(), dy.tensor());
      EXPECT_EQ(dy.values(), sum);
      t.ops.add(da.tensor(), db.tensor(), da.tensor());
      EXPECT_EQ(da.values(), sum) << "in the first";
      t.ops.add(again.tensor(), dy.tensor(), again.tensor());
      EXPECT_NE(again.values(), b);
    }
}

void check_copy_or_add_and_bf16(const Tested& t) {
  for (const int64_t count : {1, 3, 8, 129'068})
    for (const int64_t before : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} elements after {}", count, before));
      const Values a = random_values(count, 1), b = random_values(count, 2), narrow = rounded(a, DType::bf16);
      Values sum = b;
      t.reference.copy_or_add(a.data(), sum.data(), count, Gradient::add);
      const OnDevice<float> from(t.device, a, before), to(t.device, b, before), back(t.device, b, before);
      const OnDeviceTensor halves(t.device, {1, {1, 1, count}}, DType::bf16, before);
      t.ops.copy_or_add(from.data(), to.data(), count, Gradient::add);
      EXPECT_EQ(to.values(), sum);
      t.ops.copy_or_add(from.data(), to.data(), count, Gradient::overwrite);
      EXPECT_EQ(to.values(), a);
      t.ops.to_bf16(from.data(), halves.tensor().data, count);
      EXPECT_EQ(halves.values(), narrow);
      t.ops.from_bf16(halves.tensor().data, back.data(), count);
      EXPECT_EQ(back.values(), narrow);
    }
}

void check_sum_of_squares_and_clip_scale(const Tested& t) {
  for (const int64_t count : {1, 3, 1000, 2'200'001})
    for (const int64_t before : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} elements after {}", count, before));
      const Values values = random_values(count, 1);
      float expected = 0, scale = 0;
      t.reference.sum_of_squares(values.data(), count, &expected, Gradient::overwrite);
      const OnDevice<float> from(t.device, values, before), sum(t.device, {std::nanf("")}), added(t.device, {3}),
          clip(t.device, {std::nanf("")});
      t.ops.sum_of_squares(from.data(), count, sum.data(), Gradient::overwrite);
      t.ops.sum_of_squares(from.data(), count, added.data(), Gradient::add);
      expect_close(sum.values(), {expected}, "sum of squares");
      EXPECT_EQ(added.values()[0], sum.values()[0] + 3);
      for (const float limit : {0.01f, 1e6f}) {
        t.reference.clip_scale(&expected, limit, &scale);
        t.ops.clip_scale(sum.data(), limit, clip.data());
        expect_close(clip.values(), {scale}, "scale");
      }
    }
  const OnDevice<float> overflown(t.device, {std::numeric_limits<float>::infinity()}), scale_of_it(t.device, {7});
  t.ops.clip_scale(overflown.data(), 1, scale_of_it.data());
  EXPECT_EQ(scale_of_it.values()[0], 0);
}

}  // namespace ddp::testing
