// A random permutation of 0..size-1, a pure function of (seed, epoch), with random access and constant memory.
#pragma once

#include <cstdint>

namespace ddp {

class Permutation {
 public:
  Permutation(uint64_t seed, int64_t epoch, int64_t size);  // 1 <= size <= 2^62; as cheap as operator()
  int64_t operator()(int64_t position) const;               // 0 <= position < size

 private:
  uint64_t scramble(uint64_t value) const;

  uint64_t size_;
  int rounds_, low_bits_;
  uint64_t high_mask_, low_mask_;
  uint64_t key_[2];
};

}  // namespace ddp
