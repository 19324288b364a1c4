#include "tests/ops/cuda/fixture.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp::testing {
namespace {

class EmulatedSoftmax : public ::testing::TestWithParam<DType>, public EmulatedOps {
 protected:
  EmulatedSoftmax() : EmulatedOps(GetParam()) {}
  const DType type = GetParam();
};
INSTANTIATE_TEST_SUITE_P(, EmulatedSoftmax, kTypes, type_name);

// Large inputs run in several blocks.
TEST_P(EmulatedSoftmax, AgreesWithTheReference) {
  struct Size {
    int64_t n, classes;
  };
  const Size cases[] = {{1, 1},    {1, 10},   {5, 10},   {17, 2},    {256, 10}, {255, 33},
                        {97, 100}, {3, 1000}, {70, 257}, {1500, 10}, {5000, 3}};
  for (const auto& [n, classes] : cases)
    for (const bool gathered : {false, true}) {
      const float smoothing = gathered ? 0.1f : 0.0f;
      SCOPED_TRACE(fmt::format("{} x {}, gathered {}", n, classes, gathered));
      const Shape shape{n, {1, 1, classes}};
      Values z = random_values(shape.elements(), n);
      for (float& v : z) v *= 8;
      z = rounded(z, type);
      std::vector<int32_t> labels(n), ids(n);
      for (int64_t i = 0; i < n; ++i) {
        labels[i] = static_cast<int32_t>(i * 7 % classes);
        if (i % 3 == 0)
          labels[i] =
              static_cast<int32_t>(std::max_element(&z[i * classes], &z[i * classes] + classes) - &z[i * classes]);
        ids[i] = static_cast<int32_t>(n - 1 - i);
      }
      const OnDevice<int32_t> on_labels(*device, labels), on_ids(*device, ids);
      const DeviceBatch batch{.labels = on_labels.data(), .ids = gathered ? on_ids.data() : nullptr, .size = n};
      Values expected(shape.elements()), expected_stats(2);
      reference->softmax_cross_entropy_backward(
          on_host(z, shape), {.labels = labels.data(), .ids = gathered ? ids.data() : nullptr, .size = n}, 0.25f,
          smoothing, on_host(expected, shape), expected_stats.data(), Gradient::overwrite);

      const OnDeviceTensor logits(*device, shape, type, z), apart(*device, shape, type);
      const Tensor in = logits.tensor(), out = apart.tensor();
      const OnDevice<float> stats(*device, Values(2, 7.0f)), only(*device, Values(2, 7.0f)), same(*device, {2, 3});
      ops->softmax_cross_entropy(in, batch, only.data());
      ops->softmax_cross_entropy_backward(in, batch, 0.25f, smoothing, out, stats.data(), Gradient::overwrite);
      EXPECT_EQ(logits.values(), z);
      ops->softmax_cross_entropy_backward(in, batch, 0.25f, smoothing, in, same.data(), Gradient::add);
      expect_close({stats.values()[0]}, {expected_stats[0]}, "loss");
      EXPECT_EQ(stats.values()[1], expected_stats[1]);
      if (smoothing == 0)
        EXPECT_EQ(stats.values(), only.values());
      else
        EXPECT_EQ(stats.values()[1], only.values()[1]);
      EXPECT_EQ(same.values(), (Values{stats.values()[0] + 2, stats.values()[1] + 3}));
      expect_close(apart.values(), expected, "dlogits", tested().tolerance());
      EXPECT_EQ(apart.values(), logits.values());
    }
}

TEST_P(EmulatedSoftmax, IsSafeAtLargeLogitsAndPredictsTheFirstMaximum) {
  const Shape shape{2, {1, 1, 40}};  // several threads share a sample
  Values z(shape.elements(), -16384.0f), expected(shape.elements());
  z[0] = 16384;
  z[40 + 33] = z[40 + 2] = 16384;
  expected[0] = 1;
  expected[1] = -1;
  expected[40 + 33] = -0.5f;
  expected[40 + 2] = 0.5f;
  const OnDeviceTensor logits(*device, shape, type, z);
  const OnDevice<int32_t> labels(*device, {1, 33});
  const OnDevice<float> stats(*device, Values(2));
  const Tensor in = logits.tensor();
  ops->softmax_cross_entropy_backward(in, {.labels = labels.data(), .size = 2}, 1, 0, in, stats.data(),
                                      Gradient::overwrite);
  EXPECT_NEAR(stats.values()[0], 32768 + std::log(2), 1e-2);
  EXPECT_EQ(stats.values()[1], 0);
  EXPECT_EQ(logits.values(), expected);
}

// Without smoothing the class adds nothing to the loss; 0 * infinity would be NaN.
TEST_P(EmulatedSoftmax, MinusInfinityLogitHasZeroProbability) {
  const Shape shape{1, {1, 1, 3}};
  const OnDeviceTensor logits(*device, shape, type, Values{0, -INFINITY, 0});
  const OnDevice<int32_t> labels(*device, {0});
  const OnDevice<float> stats(*device, Values(2));
  ops->softmax_cross_entropy(logits.tensor(), {.labels = labels.data(), .size = 1}, stats.data());
  EXPECT_NEAR(stats.values()[0], std::log(2), 1e-6);
}

TEST_P(EmulatedSoftmax, NanLogitGivesNanLoss) {
  const Shape shape{3, {1, 1, 10}};
  OnDeviceTensor logits(*device, shape, type);  // NaN
  const OnDevice<int32_t> labels(*device, {1, 3, 5});
  const OnDevice<float> stats(*device, Values(2));
  ops->softmax_cross_entropy(logits.tensor(), {.labels = labels.data(), .size = 3}, stats.data());
  EXPECT_TRUE(std::isnan(stats.values()[0]));
  EXPECT_EQ(stats.values()[1], 0);
}

}  // namespace
}  // namespace ddp::testing
