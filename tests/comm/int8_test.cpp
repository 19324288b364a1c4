#include "comm/int8.h"

#include "tests/comm/int8_sums.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ddp {
namespace {

// Rounds once and returns the values that the other side gets.
std::vector<float> sent(const std::vector<float>& values, std::vector<float>& residual) {
  const auto count = std::ssize(values);
  std::vector<std::byte> message(int8_bytes(count));
  to_int8(values.data(), {residual.data(), residual.data()}, count, message.data());
  std::vector<float> received(count), added(count, 10);
  from_int8(message.data(), count, received.data());
  add_int8(message.data(), count, added.data());
  for (int64_t i = 0; i < count; ++i) EXPECT_TRUE(std::isnan(received[i]) || added[i] == 10 + received[i]);
  return received;
}

TEST(Int8, TakesAQuarterOfTheBytes) {
  EXPECT_EQ(int8_bytes(0), 0);
  EXPECT_EQ(int8_bytes(1), 5);
  EXPECT_EQ(int8_bytes(256), 260);
  EXPECT_EQ(int8_bytes(257), 265);
}

TEST(Int8, RoundsToTheNearestStepOfItsBlock) {
  std::vector<float> values(600), residual(600);
  for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i) - 127;  // from -127 to 128
  for (int i = 256; i < 512; ++i) values[i] = 1000.0f * static_cast<float>(i % 7);
  values[600 - 1] = -1e-20f;
  const std::vector<float> got = sent(values, residual);
  for (size_t i = 0; i < values.size(); ++i) {
    const float largest = i < 256 ? 128 : i < 512 ? 6000 : 1e-20f, scale = largest / 127;
    const float expected = std::nearbyint(values[i] / scale) * scale;
    EXPECT_NEAR(got[i], expected, 1e-6 * largest) << i;
    EXPECT_NEAR(residual[i], values[i] - expected, 1e-6 * largest) << i;
    EXPECT_EQ(got[i] + residual[i], values[i]) << i;
  }
}

// A value below half of a step arrives after some steps.
TEST(Int8, SendsLaterWhatItHasLost) {
  std::vector<float> values(256, 0.001f), residual(256);
  values[0] = 1;
  double sum = 0;
  for (int step = 0; step < 100; ++step) sum += sent(values, residual)[5];
  EXPECT_NEAR(sum, 0.1, 0.5 / 127);
  EXPECT_GT(sum, 0.09);
}

TEST(Int8, ABadBlockIsNanAndKeepsItsResidual) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(512, 1.5f), residual(512, 0.25f);
    values[300] = bad;
    const std::vector<float> got = sent(values, residual);
    for (int i = 0; i < 256; ++i) EXPECT_FLOAT_EQ(got[i], 1.75f);
    for (int i = 256; i < 512; ++i) EXPECT_TRUE(std::isnan(got[i]) && residual[i] == 0.25f) << i;
  }
  std::vector<float> values(3, 3e38f), residual(3, 3e38f);  // their sum is not finite
  EXPECT_TRUE(std::isnan(sent(values, residual)[0]));
}

TEST(Int8, TinyValuesWaitInTheResidual) {
  std::vector<float> values{0x1p-126f, -0x1p-129f, 0}, residual{0x1p-126f, 0, 0};
  EXPECT_EQ(sent(values, residual), std::vector<float>(3));
  EXPECT_EQ(residual, (std::vector<float>{0x1p-125f, -0x1p-129f, 0}));
}

class LocalInt8 : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, LocalInt8, testing::Values(1, 2, 3, 4));

TEST_P(LocalInt8, LosesNoValue) {
  run_ranks(GetParam(), [](Communicator& comm) {
    expect_int8_all_reduces(comm, Numbers::heap());
    expect_int8_reduce_scatters(comm, Numbers::heap());
    expect_int8_shows_nan(comm, Numbers::heap());
  });
}

}  // namespace
}  // namespace ddp
