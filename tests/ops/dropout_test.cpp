#include "tests/ops/backend.h"

#include <numeric>

namespace ddp::testing {
namespace {

struct DropoutCase {
  int64_t n, h, w, c;
  On on = On::every;
};

const DropoutCase kDropoutCases[] = {
    {1, 1, 1, 1},  {2, 1, 1, 10}, {3, 1, 1, 7},   {17, 1, 1, 35},  {5, 3, 3, 2},
    {5, 3, 2, 20}, {7, 5, 5, 12}, {17, 4, 4, 64}, {3, 20, 20, 13}, {3, 211, 200, 5, On::cuda}};

std::string name_of(const DropoutCase& c) { return fmt::format("n{}_{}x{}x{}", c.n, c.h, c.w, c.c); }

class DropoutMask : public CaseTest<DropoutCase> {};
INSTANTIATE_TEST_SUITE_P(, DropoutMask, on_each_backend(kDropoutCases), kCaseName);

TEST_P(DropoutMask, AgreesWithTheReference) {
  const Shape shape{c.n, {c.h, c.w, c.c}};
  std::vector<int32_t> keys(shape.n);
  for (int64_t i = 0; i < shape.n; ++i) keys[i] = static_cast<int32_t>(i * 7919 % 60000);
  Values x = random(shape.elements(), 1), expected(shape.elements());
  for (const auto& [rate, epoch] : {std::pair{0.5f, 0u}, {0.1f, 7u}, {0.0f, 1u}, {0.97f, 2u}, {0.25f, 3u}}) {
    SCOPED_TRACE(fmt::format("rate {}", rate));
    Dropout dropout{0x123456789abcdef, 3, rate, &epoch, rate == 0.5f ? c.n % 2 == 0 : rate == 0.25f};
    reference->dropout(dropout, on_host(x, shape), {.keys = keys.data(), .size = shape.n}, on_host(expected, shape));
    each_setup(backend.formats, backend.offsets, [&] {
      const auto ax = filled(shape, x), ay = unwritten(shape);
      const OnDevice<int32_t> on_keys(*device, keys);
      const OnDevice<uint32_t> on_epoch(*device, {epoch});
      const DeviceBatch batch{.keys = on_keys.data(), .size = shape.n};
      dropout.epoch = on_epoch.data();
      ops->dropout(dropout, ax.tensor(), batch, ay.tensor());
      const Values y = ay.values();
      for (int64_t i = 0; i < shape.elements(); ++i) ASSERT_EQ(y[i] != 0, expected[i] != 0) << "element " << i;
      expect_activations(y, expected, "y");
      expect_zero(ay.loaded().padding, "y");
      ops->dropout(dropout, ax.tensor(), batch, ax.tensor());
      EXPECT_EQ(ax.values(), y) << "in place";
    });
  }
}

class DropoutStatistics : public BackendTest {
 protected:
  // The input is all ones, so the output is the factors.
  Values factors(const std::vector<int32_t>& keys, const ImageShape& image) {
    const Shape shape{std::ssize(keys), image};
    const auto x = filled(shape, Values(shape.elements(), 1)), y = unwritten(shape);
    const auto on_keys = on_device(keys);
    const auto on_epoch = on_device(std::vector<uint32_t>{epoch});
    dropout.epoch = on_epoch.data();
    ops->dropout(dropout, x.tensor(), {.keys = on_keys.data(), .size = shape.n}, y.tensor());
    return y.values();
  }
  static std::vector<int32_t> keys_from(int32_t first, int64_t n) {
    std::vector<int32_t> keys(n);
    std::iota(keys.begin(), keys.end(), first);
    return keys;
  }

  uint32_t epoch = 3;
  Dropout dropout{.seed = 7, .layer = 2, .rate = 0.25f, .epoch = nullptr};
};
INSTANTIATE_TEST_SUITE_P(, DropoutStatistics, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(DropoutStatistics, MaskDoesNotDependOnThePositionInTheBatch) {
  const ImageShape image{2, 3, 7};
  const Values all = factors({10, 11, 12, 13}, image), other = factors({13, 9, 11}, image);
  const int64_t size = image.elements();
  const auto sample = [&](const Values& values, int64_t i) {
    return Values(values.begin() + i * size, values.begin() + (i + 1) * size);
  };
  EXPECT_EQ(sample(all, 3), sample(other, 0));
  EXPECT_EQ(sample(all, 1), sample(other, 2));
  EXPECT_NE(sample(all, 0), sample(all, 1));
}

TEST_P(DropoutStatistics, KeepsTheExpectedShareAndTheMean) {
  const auto keys = keys_from(0, 64);
  const float tolerance = type == DType::bf16 ? 0x1p-8f : 1e-6f;
  for (const float rate : {0.0f, 0.1f, 0.5f, 0.9f}) {
    dropout.rate = rate;
    const Values f = factors(keys, {1, 1, 4096});
    const double count = static_cast<double>(f.size());
    const auto kept = static_cast<double>(std::ranges::count_if(f, [](float v) { return v != 0; }));
    const double deviation = std::sqrt(count * rate * (1 - rate));
    EXPECT_LE(std::abs(kept - count * (1 - rate)), 4 * deviation) << rate;
    for (const float v : f) ASSERT_TRUE(v == 0 || std::abs(v * (1 - rate) - 1) < tolerance);
  }
}

// torchvision.ops.stochastic_depth with mode "row": a sample is kept as a whole, and then divided by 1 - rate.
TEST_P(DropoutStatistics, StochasticDepthDrawsOnceForASample) {
  dropout.whole_sample = true;
  const auto keys = keys_from(7, 2000);
  const ImageShape image{1, 2, 5};
  const Values f = factors(keys, image);
  int64_t kept = 0;
  for (int64_t i = 0; i < std::ssize(keys); ++i) {
    const float factor = f[i * image.elements()];
    EXPECT_TRUE(factor == 0 || std::abs(factor - 1 / 0.75f) < 0x1p-8f);
    for (int64_t e = 0; e < image.elements(); ++e) ASSERT_EQ(f[i * image.elements() + e], factor);
    kept += factor != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 1500, 4 * std::sqrt(2000 * 0.25 * 0.75));
}

TEST_P(DropoutStatistics, NanStaysNan) {
  const Shape shape{5, {3, 3, 20}};
  const auto keys = keys_from(0, shape.n);
  Values x(shape.elements(), 1);
  for (int64_t i = 0; i < shape.elements(); i += 3) x[i] = NAN;
  const auto on_keys = on_device(keys);
  const auto on_epoch = on_device(std::vector<uint32_t>{epoch});
  each_setup([&] {
    dropout.epoch = on_epoch.data();
    const auto ax = filled(shape, x), ay = unwritten(shape);
    ops->dropout(dropout, ax.tensor(), {.keys = on_keys.data(), .size = shape.n}, ay.tensor());
    const Values y = ay.values();
    for (int64_t i = 0; i < shape.elements(); ++i) ASSERT_EQ(std::isnan(y[i]), std::isnan(x[i])) << "element " << i;
  });
}

TEST_P(DropoutStatistics, MasksDifferByLayerEpochAndSeed) {
  const auto keys = keys_from(0, 4);
  const ImageShape image{1, 1, 512};
  const Dropout unchanged = dropout;
  const Values first = factors(keys, image);
  EXPECT_EQ(factors(keys, image), first);
  // Two independent masks agree with probability 0.25^2 + 0.75^2.
  const auto expect_independent = [&](const Values& other) {
    int64_t same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += (first[i] == 0) == (other[i] == 0);
    const double expected = 2048 * (0.25 * 0.25 + 0.75 * 0.75);
    EXPECT_NEAR(static_cast<double>(same), expected, 120);
  };
  dropout.layer = 3;
  expect_independent(factors(keys, image));
  dropout = unchanged;
  dropout.seed = 8;
  expect_independent(factors(keys, image));
  dropout = unchanged;
  epoch = 4;
  expect_independent(factors(keys, image));
}

}  // namespace
}  // namespace ddp::testing
