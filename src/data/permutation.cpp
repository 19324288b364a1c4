#include "data/permutation.h"

#include "core/error.h"
#include "core/philox.h"

#include <algorithm>
#include <bit>

namespace ddp {

// A Feistel network permutes the numbers of b bits; b is the smallest number of bits, at least two, for all positions.
// It splits a number into a high and a low half (unequal by one bit if b is odd). Each round XORs one half with a keyed
// function of the other half. Every round can be undone, whatever the function is, so the network is a bijection.
//
// A result of `size` or more goes through the network again ("cycle walking"). The walk follows a cycle that contains
// the position, which is below `size`: so the walk ends, and the map stays a bijection. For more than two samples a
// walk takes less than two passes on average.
//
// The function uses two multiplications by odd numbers. Philox draws its keys from (seed, epoch); they advance from
// round to round by Weyl sequences, as in Philox. Halves of a few bits change little in a round, so small sizes take
// more rounds; then even the orders of 3, 4 or 5 samples are equally likely.
namespace {

uint64_t mix(uint64_t half, uint64_t k0, uint64_t k1) {
  half = (half ^ k0) * 0xBF58476D1CE4E5B9;
  return ((half ^ half >> 32) * (k1 | 1)) >> 32;  // a half has at most 31 bits
}

}  // namespace

Permutation::Permutation(uint64_t seed, int64_t epoch, int64_t size) : size_(static_cast<uint64_t>(size)) {
  DDP_EXPECT(size >= 1 && size <= int64_t{1} << 62);
  const int bits = std::max(2, static_cast<int>(std::bit_width(size_ - 1)));
  rounds_ = bits < 10 ? 32 : 12;
  low_bits_ = bits / 2;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
  const auto [w0, w1, w2, w3] = RandomStream(seed, Operation::shuffle, 0).bits(static_cast<uint64_t>(epoch)).word;
  key_[0] = uint64_t{w0} << 32 | w1;
  key_[1] = uint64_t{w2} << 32 | w3;
}

uint64_t Permutation::scramble(uint64_t value) const {
  uint64_t high = value >> low_bits_, low = value & low_mask_;
  uint64_t k0 = key_[0], k1 = key_[1];
  for (int round = 0; round < rounds_; ++round) {
    if (round % 2 == 0)
      high ^= mix(low, k0, k1) & high_mask_;
    else
      low ^= mix(high, k0, k1) & low_mask_;
    k0 += 0x9E3779B97F4A7C15;
    k1 += 0xBB67AE8584CAA73B;
  }
  return high << low_bits_ | low;
}

int64_t Permutation::operator()(int64_t position) const {
  DDP_EXPECT(position >= 0 && static_cast<uint64_t>(position) < size_);
  uint64_t value = static_cast<uint64_t>(position);
  do value = scramble(value);
  while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace ddp
