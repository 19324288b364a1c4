// A random-access permutation of 0..size-1 keyed by (seed, epoch), in constant memory at any size.
#pragma once

#include <cstdint>

namespace ddp {

class Permutation {
 public:
  Permutation(uint64_t seed, int64_t epoch, int64_t size);
  int64_t operator()(int64_t position) const;  // 0 <= position < size
};

}  // namespace ddp
