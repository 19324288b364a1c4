#include "tests/ops/fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

namespace ddp::testing {
namespace {

const Format kRowFormats[] = {{}, Format::batch_interleaved(8), Format::batch_interleaved(16)};
const DType kTypes[] = {DType::f32, DType::bf16};

class ElementwiseTest : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Ops> ops_of(DType dtype) { return make_cpu_ops(*device, config_of(dtype, GetParam())); }

  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = ops_of(DType::f32);
  std::unique_ptr<Ops> reference = make_reference_ops(*device);
};
INSTANTIATE_TEST_SUITE_P(, ElementwiseTest, ::testing::Values(1, 2));

TEST_P(ElementwiseTest, NormalizeScalesPixelsAndClearsThePadding) {
  for (const Format format : kAllFormats)
    for (const DType dtype : kTypes)
      for (const int64_t n : {1, 8, 17})
        for (const int64_t channels : {3, 19}) {
          const ImageShape image{7, 8, channels};
          const Shape shape{n, {5, 7, channels}};  // crop at the top left
          std::vector<uint8_t> pixels(n * image.elements());
          for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
          std::vector<int32_t> ids(n);
          for (int64_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(n - 1 - i);
          const DeviceBatch batch{.images = pixels.data(), .ids = n == 8 ? ids.data() : nullptr, .size = n};
          Owned expected(shape, {}), x(shape, format, dtype);
          reference->normalize(batch, image, expected.tensor());
          ops_of(dtype)->normalize(batch, image, x.tensor());
          expect_close(x.dense(*device), expected.memory, dtype, "x");
          expect_padding_zero(x, "x");
        }
}

TEST_P(ElementwiseTest, ReluReluGradientAndAdd) {
  for (const DType dtype : kTypes)
    for (const Format format : {Format{}, Format::batch_interleaved(8), Format::blocked_channels(16)}) {
      const Shape shape{5, {40, 40, 9}};
      const Values x = rounded(random_values(shape.elements(), 1), dtype),
                   dy = rounded(random_values(shape.elements(), 2), dtype);
      Owned rx(*device, shape, {}, x), ry(shape, {}), rdy(*device, shape, {}, dy), rdx(shape, {}), rsum(shape, {});
      reference->relu(rx.tensor(), ry.tensor());
      reference->relu_backward(ry.tensor(), rdy.tensor(), rdx.tensor());
      reference->add(rx.tensor(), rdy.tensor(), rsum.tensor());
      const auto tested = ops_of(dtype);
      Owned ax(*device, shape, format, x, dtype), ay(shape, format, dtype), ady(*device, shape, format, dy, dtype),
          sum(shape, format, dtype);
      tested->relu(ax.tensor(), ay.tensor());
      EXPECT_EQ(ay.dense(*device), ry.memory);
      tested->add(ax.tensor(), ady.tensor(), sum.tensor());
      expect_close(sum.dense(*device), rsum.memory, dtype, "a + b");
      tested->add(ax.tensor(), ady.tensor(), ax.tensor());
      EXPECT_EQ(ax.dense(*device), sum.dense(*device));
      tested->relu_backward(ay.tensor(), ady.tensor(), ady.tensor());
      EXPECT_EQ(ady.dense(*device), rdx.memory);
    }
}

TEST_P(ElementwiseTest, SoftmaxCrossEntropyAgreesWithTheReference) {
  for (const DType dtype : kTypes)
    for (const Format format : kRowFormats)
      for (const float smoothing : {0.0f, 0.1f})
        for (const int64_t n : {1, 5, 8, 17, 48, 300}) {
          SCOPED_TRACE(fmt::format("{}, block {}, smoothing {}, n {}", name_of(dtype), format.block, smoothing, n));
          const Shape shape{n, {1, 1, 10}};
          Values z = random_values(shape.elements(), n);
          for (float& v : z) v *= 8;
          z = rounded(z, dtype);
          std::vector<int32_t> labels(n);
          for (int64_t i = 0; i < n; ++i) labels[i] = static_cast<int32_t>(i * 7 % 10);
          const DeviceBatch batch{.labels = labels.data(), .size = n};
          Owned logits(*device, shape, format, z, dtype), apart(shape, format, dtype), r(*device, shape, {}, z),
              rd(shape, {});
          float stats[2], expected[2], only_stats[2], plain[2];
          reference->softmax_cross_entropy_backward(r.tensor(), batch, 0.25f, smoothing, rd.tensor(), expected,
                                                    Gradient::overwrite);
          reference->softmax_cross_entropy(r.tensor(), batch, plain);
          const auto tested = ops_of(dtype);
          tested->softmax_cross_entropy(logits.tensor(), batch, only_stats);
          tested->softmax_cross_entropy_backward(logits.tensor(), batch, 0.25f, smoothing, apart.tensor(), stats,
                                                 Gradient::overwrite);
          expect_close({stats[0]}, {expected[0]}, "loss");
          EXPECT_EQ(stats[1], expected[1]);
          expect_close({only_stats[0]}, {plain[0]}, "loss alone");
          EXPECT_EQ(only_stats[1], expected[1]);
          tested->softmax_cross_entropy_backward(logits.tensor(), batch, 0.25f, smoothing, logits.tensor(), stats,
                                                 Gradient::add);
          expect_close({stats[0]}, {2 * expected[0]}, "loss, twice");
          EXPECT_EQ(stats[1], 2 * expected[1]);
          expect_close(apart.dense(*device), rd.memory, dtype, "dlogits");
          expect_padding_zero(apart, "dlogits");
          expect_padding_zero(logits, "dlogits");
          EXPECT_EQ(apart.dense(*device), logits.dense(*device));
        }
}

TEST_P(ElementwiseTest, SoftmaxIsSafeAtLargeLogits) {
  const Shape shape{2, {1, 1, 3}};
  Owned logits(*device, shape, Format::batch_interleaved(8), {1e4f, -1e4f, 0, -1e4f, 1e4f, 1e4f}),
      d(shape, Format::batch_interleaved(8));
  const int32_t labels[] = {1, 2};
  float stats[2];
  ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels, .size = 2}, 1, 0, d.tensor(), stats,
                                      Gradient::overwrite);
  EXPECT_NEAR(stats[0], 2e4 + std::log(2), 1e-2);
  EXPECT_EQ(stats[1], 0);  // the first of the equal maximum logits is not the label
  const Values expected = {1, -1, 0, 0, 0.5, -0.5};
  EXPECT_EQ(d.dense(*device), expected);
}

TEST_P(ElementwiseTest, FlagNonfiniteMarksTheFirstNonfiniteValue) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const int64_t at : {0, 20000, 40000}) {
      Values values(40001, std::numeric_limits<float>::max());
      float flag = 0;
      ops->flag_nonfinite(values.data(), 40001, 3, &flag);
      EXPECT_EQ(flag, 0);
      values[at] = bad;
      ops->flag_nonfinite(values.data(), 40001, 3, &flag);
      EXPECT_EQ(flag, 3);
      ops->flag_nonfinite(values.data(), 40001, 4, &flag);
      EXPECT_EQ(flag, 3);
    }
}

TEST_P(ElementwiseTest, CopyOrAdd) {
  const Values from = random_values(40001, 1), before = random_values(40001, 2);
  Values copied(40001, NAN), added = before, expected = before;
  ops->copy_or_add(from.data(), copied.data(), 40001, Gradient::overwrite);
  EXPECT_EQ(copied, from);
  ops->copy_or_add(from.data(), added.data(), 40001, Gradient::add);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += from[i];
  EXPECT_EQ(added, expected);
}

TEST_P(ElementwiseTest, Bf16RoundsToNearestEvenAndKeepsNanAndInfinity) {
  Values values = random_values(40001, 1);
  // Plain rounding would turn the last two, both NaN, into 0 and infinity.
  const float special[] = {0,
                           -0.0f,
                           1 + 0x1p-8f,
                           1 + 0x3p-8f,
                           1 + 0x1.01p-8f,
                           1e-40f,
                           3.4e38f,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           std::bit_cast<float>(0x7fffffffu),
                           std::bit_cast<float>(0x7f800001u)};
  std::copy(std::begin(special), std::end(special), values.begin() + 5);
  std::copy(std::begin(special), std::end(special), values.end() - std::ssize(special));
  std::vector<uint16_t> half(values.size(), 0xffff);
  ops->to_bf16(values.data(), half.data(), 40001);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(half[i], bf16_of_float(values[i])) << i;
  Values back(values.size());
  ops->from_bf16(half.data(), back.data(), 40001);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), std::bit_cast<uint32_t>(float_of_bf16(half[i]))) << i;
  EXPECT_EQ(back[7], 1);
  EXPECT_EQ(back[8], 1 + 0x1p-6f);
  EXPECT_EQ(back[9], 1 + 0x1p-7f);
  for (const int i : {14, 15, 16}) EXPECT_TRUE(std::isnan(back[i])) << i;
}

TEST_P(ElementwiseTest, SumOfSquaresIsTheSameAtAnyNumberOfThreads) {
  const auto one = make_cpu_ops(*device, {});
  for (const int64_t count : {1, 63, 1025, 40001, 20000000}) {
    const Values values = random_values(count, count);
    float sum = 0.5f, expected = 0.5f, alone = NAN;
    ops->sum_of_squares(values.data(), count, &sum, Gradient::add);
    reference->sum_of_squares(values.data(), count, &expected, Gradient::add);
    expect_close({sum}, {expected}, "sum", 1e-6);
    ops->sum_of_squares(values.data(), count, &sum, Gradient::overwrite);
    one->sum_of_squares(values.data(), count, &alone, Gradient::overwrite);
    EXPECT_EQ(sum, alone);
  }
}

TEST_P(ElementwiseTest, ClipScaleBoundsTheNorm) {
  for (Ops* const tested : {ops.get(), reference.get()}) {
    const auto scale_of = [&](float sum, float limit) {
      float scale = NAN;
      tested->clip_scale(&sum, limit, &scale);
      return scale;
    };
    EXPECT_EQ(scale_of(4, 3), 1);
    EXPECT_NEAR(scale_of(16, 1), 0.25, 1e-6);
    EXPECT_EQ(scale_of(0, 1), 1);
    EXPECT_EQ(scale_of(INFINITY, 1), 0);
    EXPECT_EQ(scale_of(NAN, 1), 1);
  }
}

TEST_P(ElementwiseTest, ReorderKeepsValuesAndPadsWithZeros) {
  const Shape shape{5, {3, 4, 11}};
  const Values x = random_values(shape.elements(), 1);
  for (const Format from : kAllFormats)
    for (const Format to : kAllFormats) {
      Owned a(*device, shape, from, x), b(shape, to);
      ops->reorder(a.tensor(), b.tensor());
      EXPECT_EQ(b.dense(*device), x);
      EXPECT_EQ(std::count_if(b.memory.begin(), b.memory.end(), [](float v) { return v != 0; }),
                std::count_if(x.begin(), x.end(), [](float v) { return v != 0; }));
    }
}

}  // namespace
}  // namespace ddp::testing
