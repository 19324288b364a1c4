#include "tests/ops/fixture.h"

#include <fmt/format.h>

#include <numeric>

namespace ddp::testing {
namespace {

std::vector<int32_t> keys_from(int32_t first, int64_t n) {
  std::vector<int32_t> keys(n);
  std::iota(keys.begin(), keys.end(), first);
  return keys;
}

class DropoutTest : public ::testing::Test {
 protected:
  // The factors: the input is all ones, so the output is the factors.
  Values factors(const Dropout& d, const std::vector<int32_t>& keys, const ImageShape& image) {
    const Shape shape{static_cast<int64_t>(keys.size()), image};
    Owned x(*device, shape, {}, Values(shape.elements(), 1)), y(shape, {});
    ops->dropout(d, x.tensor(), {.keys = keys.data(), .size = shape.n}, y.tensor());
    return y.memory;
  }

  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = make_cpu_ops(*device, {});
  uint32_t epoch = 3;
  Dropout dropout{.seed = 7, .layer = 2, .rate = 0.25f, .epoch = &epoch};
};

TEST_F(DropoutTest, DropsTheSameElementsInEveryFormat) {
  const auto reference = make_reference_ops(*device);
  for (const Shape shape : {Shape{5, {3, 2, 20}}, Shape{17, {1, 1, 35}}, Shape{1, {1, 1, 1}}, Shape{3, {20, 20, 13}}}) {
    const std::vector<int32_t> keys = keys_from(100, shape.n);
    const DeviceBatch batch{.keys = keys.data(), .size = shape.n};
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Values x = rounded(random_values(shape.elements(), 1), dtype);
      Owned rx(*device, shape, {}, x), ry(shape, {});
      reference->dropout(dropout, rx.tensor(), batch, ry.tensor());
      for (const Format format : kAllFormats)
        for (const int threads : {1, 2}) {
          SCOPED_TRACE(fmt::format("n {}, kind {} block {}, {}, {} threads", shape.n, static_cast<int>(format.kind),
                                   format.block, name_of(dtype), threads));
          const auto tested = make_cpu_ops(*device, config_of(dtype, threads));
          Owned ax(*device, shape, format, x, dtype), ay(shape, format, dtype);
          tested->dropout(dropout, ax.tensor(), batch, ay.tensor());
          expect_close(ay.dense(*device), ry.memory, dtype, "y");
          expect_padding_zero(ay, "y");
          tested->dropout(dropout, ax.tensor(), batch, ax.tensor());
          EXPECT_EQ(ax.dense(*device), ay.dense(*device)) << "in place";
        }
    }
  }
}

TEST_F(DropoutTest, MaskDoesNotDependOnThePositionInTheBatch) {
  const ImageShape image{2, 3, 7};
  const Values all = factors(dropout, {10, 11, 12, 13}, image), other = factors(dropout, {13, 9, 11}, image);
  const int64_t size = image.elements();
  const auto sample = [&](const Values& values, int64_t i) {
    return Values(values.begin() + i * size, values.begin() + (i + 1) * size);
  };
  EXPECT_EQ(sample(all, 3), sample(other, 0));
  EXPECT_EQ(sample(all, 1), sample(other, 2));
  EXPECT_NE(sample(all, 0), sample(all, 1));
}

TEST_F(DropoutTest, KeepsTheExpectedShareAndTheMean) {
  const auto keys = keys_from(0, 64);
  for (const float rate : {0.0f, 0.1f, 0.5f, 0.9f}) {
    dropout.rate = rate;
    const Values f = factors(dropout, keys, {1, 1, 4096});
    const double count = static_cast<double>(f.size());
    const auto kept = static_cast<double>(std::count_if(f.begin(), f.end(), [](float v) { return v != 0; }));
    const double deviation = std::sqrt(count * rate * (1 - rate));
    EXPECT_LE(std::abs(kept - count * (1 - rate)), 4 * deviation) << rate;
    for (const float v : f) ASSERT_TRUE(v == 0 || std::abs(v * (1 - rate) - 1) < 1e-6f);
  }
}

TEST_F(DropoutTest, MasksDifferByLayerEpochAndSeed) {
  const auto keys = keys_from(0, 4);
  const ImageShape image{1, 1, 512};
  const Values first = factors(dropout, keys, image);
  EXPECT_EQ(factors(dropout, keys, image), first);
  // Two independent masks agree with probability 0.25^2 + 0.75^2.
  const auto expect_independent = [&](const Values& other) {
    int64_t same = 0;
    for (size_t i = 0; i < first.size(); ++i) same += (first[i] == 0) == (other[i] == 0);
    const double expected = 2048 * (0.25 * 0.25 + 0.75 * 0.75);
    EXPECT_NEAR(static_cast<double>(same), expected, 120);
  };
  Dropout changed = dropout;
  changed.layer = 3;
  expect_independent(factors(changed, keys, image));
  changed = dropout;
  changed.seed = 8;
  expect_independent(factors(changed, keys, image));
  epoch = 4;
  expect_independent(factors(dropout, keys, image));
}

}  // namespace
}  // namespace ddp::testing
