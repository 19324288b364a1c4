#include "tests/ops/rig.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::testing {
namespace {

const Format kFormats[] = {{}, Format::lanes(8), Format::lanes(16)};

class ElementwiseTest : public ::testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = make_cpu_ops(*device, GetParam());
  std::unique_ptr<Ops> reference = make_reference_ops(*device);
};
INSTANTIATE_TEST_SUITE_P(Threads, ElementwiseTest, ::testing::Values(1, 2));

TEST_P(ElementwiseTest, NormalizeScalesPixelsAndClearsThePadding) {
  for (const Format format : kFormats)
    for (const int64_t n : {1, 8, 17}) {
      const ImageShape image{7, 8, 3};
      const Shape shape{n, {5, 7, 3}};  // its top left
      std::vector<uint8_t> pixels(n * image.elements());
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
      Owned expected(shape, {}), x(shape, format);
      reference->normalize({.pixels = pixels.data(), .size = n}, image, expected.tensor());
      ops->normalize({.pixels = pixels.data(), .size = n}, image, x.tensor());
      expect_close(x.dense(*device), expected.memory, "x", 1e-7);
      expect_padding_zero(x, "x");
    }
}

TEST_P(ElementwiseTest, ReluAndItsGradient) {
  const Shape shape{5, {40, 40, 9}};
  const Values x = random_values(shape.elements(), 1), dy = random_values(shape.elements(), 2);
  Owned ax(*device, shape, {}, x), ay(shape, {}), ry(shape, {}), ady(*device, shape, {}, dy), rdx(shape, {});
  ops->relu(ax.tensor(), ay.tensor());
  reference->relu(ax.tensor(), ry.tensor());
  EXPECT_EQ(ay.memory, ry.memory);
  reference->relu_backward(ry.tensor(), ady.tensor(), rdx.tensor());
  ops->relu_backward(ay.tensor(), ady.tensor(), ady.tensor());
  EXPECT_EQ(ady.memory, rdx.memory);
}

TEST_P(ElementwiseTest, SoftmaxCrossEntropyAgreesWithTheReference) {
  for (const Format format : kFormats)
    for (const int64_t n : {1, 5, 8, 17, 48}) {
      const Shape shape{n, {1, 1, 10}};
      Values z = random_values(shape.elements(), n);
      for (float& v : z) v *= 8;
      std::vector<int32_t> labels(n);
      for (int64_t i = 0; i < n; ++i) labels[i] = static_cast<int32_t>(i * 7 % 10);
      Owned logits(*device, shape, format, z), apart(shape, format), r(*device, shape, {}, z), rd(shape, {});
      float stats[2], expected[2], only_stats[2];
      reference->softmax_cross_entropy_backward(r.tensor(), {.labels = labels.data(), .size = n}, 0.25f, rd.tensor(),
                                                expected);
      ops->softmax_cross_entropy(logits.tensor(), {.labels = labels.data(), .size = n}, only_stats);
      ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels.data(), .size = n}, 0.25f, apart.tensor(),
                                          stats);
      ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels.data(), .size = n}, 0.25f, logits.tensor(),
                                          stats);
      expect_close({stats[0]}, {expected[0]}, "loss");
      EXPECT_EQ(stats[1], expected[1]);
      EXPECT_EQ(stats[0], only_stats[0]);
      EXPECT_EQ(stats[1], only_stats[1]);
      expect_close(logits.dense(*device), rd.memory, "dlogits");
      expect_padding_zero(apart, "dlogits");
      EXPECT_EQ(apart.memory, logits.memory);  // with NaN before, so the padding was written
    }
}

TEST_P(ElementwiseTest, SoftmaxIsSafeAtLargeLogits) {
  const Shape shape{2, {1, 1, 3}};
  Owned logits(*device, shape, Format::lanes(8), {1e4f, -1e4f, 0, -1e4f, 1e4f, 1e4f}), d(shape, Format::lanes(8));
  const int32_t labels[] = {1, 2};
  float stats[2];
  ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels, .size = 2}, 1, d.tensor(), stats);
  EXPECT_NEAR(stats[0], 2e4 + std::log(2), 1e-2);
  EXPECT_EQ(stats[1], 0);  // the first of equal logits is not the label
  const Values expected = {1, -1, 0, 0, 0.5, -0.5};
  EXPECT_EQ(d.dense(*device), expected);
}

TEST_P(ElementwiseTest, FlagNonfiniteMarksTheFirstFinding) {
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

TEST_P(ElementwiseTest, SgdStepsUnlessAnySkipIsSet) {
  const Values w = random_values(40001, 1), g = random_values(40001, 2);
  const float lr = 0.1f;
  Values stepped = w, expected = w, kept = w;
  const float go[] = {0, 0, 0}, skip[] = {0, 0, 1};
  ops->sgd(stepped.data(), g.data(), 40001, &lr, go);
  reference->sgd(expected.data(), g.data(), 40001, &lr, go);
  expect_close(stepped, expected, "w", 1e-7);
  EXPECT_NE(stepped, w);
  ops->sgd(kept.data(), g.data(), 40001, &lr, skip);
  EXPECT_EQ(kept, w);
}

TEST_P(ElementwiseTest, ReorderKeepsValuesAndPadsWithZeros) {
  const Shape shape{5, {3, 4, 11}};
  const Values x = random_values(shape.elements(), 1);
  const Format all[] = {{}, Format::lanes(8), Format::lanes(16), Format::channels(8), Format::channels(16)};
  for (const Format from : all)
    for (const Format to : all) {
      Owned a(*device, shape, from, x), b(shape, to);
      ops->reorder(a.tensor(), b.tensor());
      EXPECT_EQ(b.dense(*device), x);
      EXPECT_EQ(std::count_if(b.memory.begin(), b.memory.end(), [](float v) { return v != 0; }),
                std::count_if(x.begin(), x.end(), [](float v) { return v != 0; }));
    }
}

}  // namespace
}  // namespace ddp::testing
