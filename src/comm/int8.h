// Gradients in 8 bits for slow links: blocks of 256 values, each with a scale. What the rounding of a value loses, its
// residual, is added to the value of the next step (error feedback: 1-bit SGD, Seide et al. 2014).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

inline constexpr int64_t kInt8Block = 256;  // values of a block; the last one of a span may have fewer

// Bytes of `count` values: one for each, behind the f32 scales of the blocks.
constexpr int64_t int8_bytes(int64_t count) {
  return count + static_cast<int64_t>(sizeof(float)) * ((count + kInt8Block - 1) / kInt8Block);
}

// What this rank's roundings have lost so far, of each value of a span, in host memory: `before` the sum in progress,
// and `after` it, which the sum writes where this rank rounds. They may be equal, but must not overlap in part.
// `before` is null where nothing is rounded.
struct Residual {
  const float* before = nullptr;
  float* after = nullptr;

  explicit operator bool() const { return before; }
  Residual from(int64_t value) const { return before ? Residual{before + value, after + value} : Residual(); }
};

// Rounds values[i] + before[i] to the nearest multiple of the block's scale, the largest absolute value / 127, and
// writes the loss to after[i]. A block with a NaN or an infinity becomes NaN and keeps its residual. `to` gets
// int8_bytes(count).
void to_int8(const float* values, const Residual& residual, int64_t count, std::byte* to);

void from_int8(const std::byte* from, int64_t count, float* to);
void add_int8(const std::byte* from, int64_t count, float* to);  // to[i] += value i

}  // namespace ddp
