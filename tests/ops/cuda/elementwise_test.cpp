#include "ops/cuda/elementwise.h"

#include "ops/cuda/bias_gradient.h"
#include "tests/ops/cuda/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ddp::testing {
namespace {

class EmulatedElementwise : public ::testing::TestWithParam<DType>, public EmulatedOps {
 protected:
  EmulatedElementwise() : EmulatedOps(GetParam()) {}
  const DType type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(, EmulatedElementwise, kTypes, type_name);

TEST_P(EmulatedElementwise, NormalizeGathersAndCrops) {
  struct Padded {
    int64_t n;
    ImageShape image, part;
  };
  const Padded cases[] = {{1, {28, 28, 1}, {28, 28, 1}}, {5, {28, 28, 1}, {28, 28, 1}},    {3, {28, 28, 1}, {9, 28, 1}},
                          {17, {7, 8, 3}, {5, 7, 3}},    {2, {8, 8, 3}, {8, 4, 3}},        {4, {5, 5, 3}, {5, 5, 3}},
                          {3, {12, 16, 8}, {10, 12, 8}}, {1, {735, 737, 1}, {735, 737, 1}}};  // larger than the grid
  for (const auto& [n, image, part] : cases)
    for (const bool gathered : {false, true}) {
      SCOPED_TRACE(fmt::format("{} of {}x{}x{}, gathered {}", n, image.h, image.w, image.c, gathered));
      std::vector<uint8_t> bytes(2 * n * image.elements());
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 251);
      std::vector<int32_t> ids(n);
      for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(2 * n - 1 - i * 2);
      const OnDevice<uint8_t> pixels(*device, bytes);
      const OnDevice<int32_t> order(*device, ids);
      const Shape shape{n, part};
      Values expected(shape.elements());
      const OnDeviceTensor x(*device, shape, type);
      reference->normalize({.images = bytes.data(), .ids = gathered ? ids.data() : nullptr, .size = n}, image,
                           on_host(expected, shape));
      ops->normalize({.images = pixels.data(), .ids = gathered ? order.data() : nullptr, .size = n}, image, x.tensor());
      expect_close(x.values(), rounded(expected, type), "x", type == DType::bf16 ? 1e-3 : 1e-7);
    }
}

TEST_P(EmulatedElementwise, ReluAndReluGradient) {
  for (const int64_t count : {1, 7, 72005})
    for (const int64_t before : {0, 1}) {  // 1 element before the data makes all pointers unaligned
      SCOPED_TRACE(fmt::format("{} elements after {}", count, before));
      const Shape shape{1, {1, 1, count}};
      Values x = rounded(random_values(count, 1), type), dy = rounded(random_values(count, 2), type);
      Values y(count), dx(count);
      reference->relu(on_host(x, shape), on_host(y, shape));
      reference->relu_backward(on_host(y, shape), on_host(dy, shape), on_host(dx, shape));
      const OnDeviceTensor ax(*device, shape, type, x, before), ay(*device, shape, type, before);
      const OnDeviceTensor ady(*device, shape, type, dy, before), adx(*device, shape, type, before);
      ops->relu(ax.tensor(), ay.tensor());
      ops->relu_backward(ay.tensor(), ady.tensor(), adx.tensor());
      EXPECT_EQ(ay.values(), y);
      EXPECT_EQ(adx.values(), dx);
      ops->relu(ax.tensor(), ax.tensor());
      ops->relu_backward(ax.tensor(), ady.tensor(), ady.tensor());
      EXPECT_EQ(ax.values(), y);
      EXPECT_EQ(ady.values(), dx);
    }
}

TEST_P(EmulatedElementwise, BiasGradientMasksAndSums) {
  const Shape shapes[] = {{1, {1, 1, 1}},    {3, {1, 1, 7}},     {256, {1, 1, 10}}, {256, {1, 1, 128}},
                          {8, {26, 26, 20}}, {9, {9, 9, 50}},    {2, {7, 11, 5}},   {40, {4, 4, 301}},
                          {5, {3, 3, 512}},  {67, {3, 3, 1100}}, {1, {37, 37, 16}}};
  for (const Shape& shape : shapes)
    for (const bool masked : {false, true}) {
      const int64_t count = shape.elements(), channels = shape.image.c;
      SCOPED_TRACE(fmt::format("{} rows of {}, masked {}", count / channels, channels, masked));
      const Values y = rounded(random_values(count, 1), type), dy = rounded(random_values(count, 2), type);
      const Values before = random_values(channels, 3);
      std::vector<double> sums(channels);
      Values expected_dy = dy, overwritten(channels), added(channels);
      for (int64_t i = 0; i < count; ++i) {
        if (masked && !(y[i] > 0)) expected_dy[i] = 0;
        sums[i % channels] += expected_dy[i];
      }
      for (int64_t c = 0; c < channels; ++c) {
        overwritten[c] = static_cast<float>(sums[c]);
        added[c] = static_cast<float>(sums[c] + before[c]);
      }
      const OnDeviceTensor ay(*device, shape, type, y), ady(*device, shape, type, dy);
      const Tensor outputs = masked ? ay.tensor() : Tensor{};
      const OnDevice<float> once(*device, Values(channels, std::nanf(""))), again(*device, Values(channels)),
          sum(*device, before);
      reserve_bias_gradient(context, count / channels, channels);
      bias_gradient(context, outputs, ady.tensor(), once.data(), Gradient::overwrite);
      EXPECT_EQ(ady.values(), expected_dy);
      bias_gradient(context, outputs, ady.tensor(), again.data(), Gradient::overwrite);
      const OnDeviceTensor only_masked(*device, shape, type, dy);
      bias_gradient(context, outputs, only_masked.tensor(), nullptr, Gradient::overwrite);
      EXPECT_EQ(only_masked.values(), expected_dy);
      bias_gradient(context, outputs, ady.tensor(), sum.data(), Gradient::add);
      expect_close(once.values(), overwritten, "overwritten");
      expect_close(sum.values(), added, "added");
      EXPECT_EQ(once.values(), again.values());
    }
}

TEST_P(EmulatedElementwise, Add) { check_add(tested()); }

class EmulatedFlat : public ::testing::Test, public EmulatedOps {};

TEST_F(EmulatedFlat, CopyOrAddAndBf16) { check_copy_or_add_and_bf16(tested()); }
TEST_F(EmulatedFlat, SumOfSquaresAndClipScale) { check_sum_of_squares_and_clip_scale(tested()); }

TEST_F(EmulatedFlat, ReservationForTheMostRowsServesFewerRows) {
  const int64_t channels = 20;
  reserve_bias_gradient(context, 6000, channels);
  for (const int64_t rows : {1, 40, 800, 830, 2500, 5999}) {
    const OnDeviceTensor dy(*device, {rows, {1, 1, channels}}, DType::f32, Values(rows * channels, 1.0f));
    const OnDevice<float> dbias(*device, Values(channels));
    bias_gradient(context, {}, dy.tensor(), dbias.data(), Gradient::overwrite);
    EXPECT_EQ(dbias.values(), Values(channels, static_cast<float>(rows)));
  }
}

// The op adds a bf16 weight gradient to the f32 gradient.
TEST_F(EmulatedFlat, Bf16IsAddedToF32) {
  for (const int64_t count : {1, 3, 8, 129'068})
    for (const int64_t before : {0, 1}) {
      const Values a = rounded(random_values(count, 1), DType::bf16), b = random_values(count, 2);
      Values sum(count);
      for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
      const OnDeviceTensor halves(*device, {1, {1, 1, count}}, DType::bf16, a, before);
      const OnDevice<float> target(*device, b, before);
      from_bf16(context, halves.tensor().data, target.data(), count, Gradient::add);
      EXPECT_EQ(target.values(), sum);
    }
}

class EmulatedSpans : public ::testing::TestWithParam<int64_t>, public EmulatedOps {
 protected:
  const int64_t count = GetParam();
};
INSTANTIATE_TEST_SUITE_P(, EmulatedSpans, ::testing::Values(1, 3, 8, 129'068), ::testing::PrintToStringParamName());

TEST_P(EmulatedSpans, FlagNonfiniteMarksTheFirstNonfiniteValue) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const int64_t before : {0, 1}) {
      const int64_t at = std::signbit(bad) ? 0 : count - 1;
      Values values(count, std::numeric_limits<float>::max());
      const OnDevice<float> flag(*device, {0.0f}), finite(*device, values, before);
      ops->flag_nonfinite(finite.data(), count, 3, flag.data());
      EXPECT_EQ(flag.values()[0], 0);
      values[at] = bad;
      const OnDevice<float> broken(*device, values, before);
      ops->flag_nonfinite(broken.data(), count, 3, flag.data());
      EXPECT_EQ(flag.values()[0], 3);
      ops->flag_nonfinite(broken.data(), count, 4, flag.data());
      EXPECT_EQ(flag.values()[0], 3);
    }
}

}  // namespace
}  // namespace ddp::testing
