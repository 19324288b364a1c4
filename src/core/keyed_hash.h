// A hash of numbers and texts under a key, by Philox: the state is half of the counter, and each 64-bit word that is
// added is the other half. Equal on every machine. Not for secrets: an opponent who knows the key can find collisions.
#pragma once

#include "core/philox.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ddp {

class KeyedHash {
 public:
  constexpr KeyedHash(uint64_t seed, Operation operation) : seed_(seed) { add(static_cast<uint64_t>(operation)); }

  constexpr void add(uint64_t word) {
    const auto [w0, w1, w2, w3] = philox4x32({{static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32),
                                               static_cast<uint32_t>(state_), static_cast<uint32_t>(state_ >> 32)}},
                                             seed_)
                                      .word;
    state_ = uint64_t{w1} << 32 | w0;
  }

  // Adds the length, then the bytes, eight in a word, the first one lowest.
  constexpr void add(std::string_view text) {
    add(uint64_t{text.size()});
    for (; !text.empty(); text.remove_prefix(std::min<size_t>(8, text.size()))) {
      uint64_t word = 0;
      for (size_t i = 0; i < std::min<size_t>(8, text.size()); ++i)
        word |= uint64_t{static_cast<uint8_t>(text[i])} << 8 * i;
      add(word);
    }
  }

  constexpr uint64_t value() const { return state_; }

 private:
  uint64_t seed_, state_ = 0;
};

}  // namespace ddp
