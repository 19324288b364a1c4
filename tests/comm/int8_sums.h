// What sums in int8 must hold on every transport.
#pragma once

#include "comm/communicator.h"
#include "comm/int8.h"
#include "device/buffer.h"
#include "tests/comm/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace ddp {

// Between -1 and 1, other ones for each rank, step and element; blocks differ in size.
inline float real_value(int rank, int step, int64_t i) {
  const auto mixed = static_cast<uint32_t>((i * 7919 + rank * 104729 + step * 1299709) % 65521);
  return (static_cast<float>(mixed) / 32760 - 1) / static_cast<float>(1 + i / kInt8Block % 5);
}

using Sum = std::function<void(Communicator&, DeviceSpan)>;

// Three sums of the same span. No value is lost: the sums of all steps, and the residuals of all ranks behind them, are
// the sum of all values. A sum is as near as its roundings allow. `begin`, `count`: the elements that this rank gets.
inline void expect_int8_sums(Communicator& comm, Memory& memory, int64_t all, int64_t begin, int64_t count,
                             const Sum& sum) {
  const int ranks = comm.size(), hosts = comm.place().hosts;
  const Buffer data(memory, bytes_of_floats(all));
  std::vector<float> residual(all), left(all);
  std::vector<double> given(all), got(all);
  for (int step = 0; step < 3; ++step) {
    for (int64_t i = 0; i < all; ++i) data.as<float>()[i] = real_value(comm.rank(), step, i);
    sum(comm, {data.data(), all, DType::f32, {residual.data(), residual.data()}});
    for (int64_t i = begin; i < begin + count; ++i) {
      double exact = 0;
      for (int r = 0; r < ranks; ++r) exact += real_value(r, step, i);
      const double found = data.as<float>()[i];
      // Twice a half of a scale for each rounding; the largest sum of a host, then of all hosts, is at most `ranks`.
      const double bound = hosts == 1 ? 1e-6 * ranks : 2.0 * ranks / 127;
      ASSERT_LE(std::abs(found - exact), bound) << i << " of " << all;
      given[i] += exact;
      got[i] += found;
    }
  }
  left = residual;
  if (all > 0) comm.wait(comm.all_reduce(DeviceSpan::of(left)));
  double lost = 0;
  for (int64_t i = begin; i < begin + count; ++i) {
    ASSERT_NEAR(got[i] + left[i], given[i], 3e-6 * ranks) << i << " of " << all;
    lost = std::max(lost, std::abs(given[i] - got[i]));
  }
  const bool none_left = std::ranges::all_of(residual, [](float value) { return value == 0; });
  EXPECT_TRUE(hosts > 1 || none_left);
  EXPECT_TRUE(hosts == 1 || count <= 1 || lost > 0);
}

inline void expect_int8_all_reduces(Communicator& comm, Memory& memory) {
  for (const int64_t count : {0, 1, 255, 256, 257, 5001, 100'003})
    expect_int8_sums(comm, memory, count, 0, count,
                     [](Communicator& c, DeviceSpan span) { c.wait(c.all_reduce(span)); });
}

inline void expect_int8_reduce_scatters(Communicator& comm, Memory& memory) {
  for (const int64_t part : {0, 1, 257, 33'000})
    expect_int8_sums(comm, memory, part * comm.size(), comm.rank() * part, part,
                     [](Communicator& c, DeviceSpan span) { c.wait(c.reduce_scatter(span)); });
}

// A NaN on one rank is a NaN on all ranks, and the residuals stay finite.
inline void expect_int8_shows_nan(Communicator& comm, Memory& memory) {
  constexpr int64_t kCount = 1000, kBad = 700;
  const Buffer data(memory, bytes_of_floats(kCount));
  std::vector<float> residual(kCount);
  for (const bool bad : {false, true, false}) {
    for (int64_t i = 0; i < kCount; ++i) data.as<float>()[i] = real_value(comm.rank(), 0, i);
    if (bad && comm.rank() == comm.size() - 1) data.as<float>()[kBad] = NAN;
    comm.wait(comm.all_reduce({data.data(), kCount, DType::f32, {residual.data(), residual.data()}}));
    EXPECT_EQ(std::isnan(data.as<float>()[kBad]), bad);
    EXPECT_FALSE(std::isnan(data.as<float>()[0]));
    EXPECT_TRUE(std::ranges::all_of(residual, [](float value) { return std::isfinite(value); }));
  }
}

}  // namespace ddp
