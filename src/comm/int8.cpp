#include "comm/int8.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace ddp {
namespace {

constexpr float kMost = 127;
constexpr int32_t kInfinity = 0x7f800000;  // as bits; those of a NaN are larger
constexpr float kLeast = 1e-30f;           // a block of smaller values waits in the residual: 127 / them may overflow
constexpr float kRounder = 0x1.8p23f;      // a float of this size has no fraction, and its last bits are an integer

// The bits of the largest absolute value of values[i] + residual[i]: in their order NaN is above infinity.
int32_t largest_bits(const float* __restrict values, const float* __restrict residual, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<int32_t>(values[i] + residual[i]) & 0x7fffffff);
  return largest;
}

void round_block(const float* __restrict values, const Residual& residual, int64_t count, float scale,
                 int8_t* __restrict to) {
  const float* const before = residual.before;
  float* const after = residual.after;
  const float steps = 1 / scale;
#pragma GCC ivdep  // before and after may be equal
  for (int64_t i = 0; i < count; ++i) {
    const float value = values[i] + before[i];
    const int32_t q = std::bit_cast<int32_t>(value * steps + kRounder) - std::bit_cast<int32_t>(kRounder);
    after[i] = value - static_cast<float>(q) * scale;
    to[i] = static_cast<int8_t>(q);
  }
}

template <class Visit>  // visit(offset, count, number)
void for_each_block(int64_t count, Visit visit) {
  for (int64_t at = 0; at < count; at += kInt8Block) visit(at, std::min(kInt8Block, count - at), at / kInt8Block);
}

template <class Put>  // put(float& to, float value)
void read_blocks(const std::byte* from, int64_t count, float* to, Put put) {
  const auto* const numbers = reinterpret_cast<const int8_t*>(from + int8_bytes(count) - count);
  for_each_block(count, [&](int64_t at, int64_t n, int64_t block) {
    float scale;
    std::memcpy(&scale, from + block * sizeof scale, sizeof scale);
    const int8_t* const __restrict q = numbers + at;
    float* const __restrict out = to + at;
    for (int64_t i = 0; i < n; ++i) put(out[i], static_cast<float>(q[i]) * scale);
  });
}

}  // namespace

void to_int8(const float* values, const Residual& residual, int64_t count, std::byte* to) {
  auto* const numbers = reinterpret_cast<int8_t*>(to + int8_bytes(count) - count);
  for_each_block(count, [&](int64_t at, int64_t n, int64_t block) {
    const Residual here = residual.from(at);
    const int32_t bits = largest_bits(values + at, here.before, n);
    const float largest = std::bit_cast<float>(bits);
    const bool bad = bits >= kInfinity;
    float scale = bad ? std::numeric_limits<float>::quiet_NaN() : 0;
    if (!bad && largest >= kLeast) {
      scale = largest / kMost;
      round_block(values + at, here, n, scale, numbers + at);
    } else {
      for (int64_t i = 0; i < n; ++i) here.after[i] = here.before[i] + (bad ? 0 : values[at + i]);
      std::memset(numbers + at, 0, static_cast<size_t>(n));
    }
    std::memcpy(to + block * sizeof scale, &scale, sizeof scale);
  });
}

void from_int8(const std::byte* from, int64_t count, float* to) {
  read_blocks(from, count, to, [](float& out, float value) { out = value; });
}

void add_int8(const std::byte* from, int64_t count, float* to) {
  read_blocks(from, count, to, [](float& out, float value) { out += value; });
}

}  // namespace ddp
