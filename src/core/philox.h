// Counter-based random numbers: each number is a pure function of (seed, operation, stream, index), not of a sequence
// of draws. So ranks, threads and batch sizes cannot change the numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace ddp {

struct Bits128 {
  uint32_t word[4];
};

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Ten rounds
// turn a counter and a key into 128 random bits. A round multiplies two words of the counter by constants, XORs the
// high halves of the products with the other two words and the key, and permutes the words. The key advances by a Weyl
// sequence. Plain C++, for host and device.
constexpr Bits128 philox4x32(Bits128 counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  auto [c0, c1, c2, c3] = counter.word;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// Uniform in [0, count), from 32 random bits: floor(word * count / 2^32).
constexpr int64_t drawn_below(uint32_t word, int64_t count) {
  return static_cast<int64_t>(word * static_cast<uint64_t>(count) >> 32);
}

// The use of the random numbers. It is part of the counter, so two operations never share numbers. The values define
// the meaning of a seed: do not change them.
enum class Operation : uint32_t {
  initial_weights = 1,
  shuffle = 2,
  dropout = 3,
  flip = 4,           // of a training image (ops/input_transform.h)
  padded_crop = 5,    // the offset of a training image in its padding (ops/input_transform.h)
  picture_crop = 6,   // the box that is cut out of a picture for training
  val_split = 7,      // which files are validation data
  picture_list = 8,   // the hash of a list of pictures
  mix = 9,            // of the samples of a global batch (train/step/draw_mix.h)
  random_erase = 10,  // the erased box of a training image (ops/erased_box.h)
  auto_augment = 11,  // the operations on a training image (data/augment/policy.h)
  draw_token = 12,    // the next token of a text (app/commands/predict/draw_token.h)
};

// The random numbers of one operation and one `stream` (for example, a parameter), read by index in any order.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, Operation operation, uint32_t stream)
      : seed_(seed), operation_(operation), stream_(stream) {}

  constexpr Bits128 bits(uint64_t index) const {
    return philox4x32({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream_,
                        static_cast<uint32_t>(operation_)}},
                      seed_);
  }

  // Uniform in [0, 1); a multiple of 2^-24.
  constexpr float uniform(uint64_t index) const { return static_cast<float>(bits(index).word[0] >> 8) * 0x1p-24f; }

  // Normal with mean 0 and variance 1, by the Box-Muller transform. Computed in double, so the float result hardly
  // depends on the machine's math library.
  float normal(uint64_t index) const {
    const Bits128 random = bits(index);
    const double u = (random.word[0] + 1.0) * 0x1p-32;  // (0, 1]: log(u) is finite
    const double angle = random.word[1] * 0x1p-32 * 2 * std::numbers::pi;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(angle));
  }

 private:
  uint64_t seed_;
  Operation operation_;
  uint32_t stream_;
};

}  // namespace ddp
