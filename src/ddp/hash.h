// An FNV-1a hash over 64-bit words, its upper half folded into the lower half: the same value on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddp {

class Hash {
 public:
  void add(uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
  uint64_t value() const { return value_ ^ (value_ >> 32); }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

inline uint64_t hash_of(std::string_view text) {
  Hash hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.value();
}

}  // namespace ddp
