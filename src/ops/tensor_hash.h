// Hashes of the bits of tensors in a flat buffer of floats: all backends and all numbers of threads give the same
// values. Another bit in one element always changes the hash; other changes keep it with a probability of 2^-64.
#pragma once

#include <cstdint>

namespace ddp {

// In elements.
struct HashedSpan {
  int64_t offset = 0, count = 0;  // count < 2^32
};

// A plan.
class TensorHash {
 public:
  virtual ~TensorHash() = default;

  // hashes[t] = the sum over i of splitmix64(i * 2^32 + bits of element i of tensor t), modulo 2^64. splitmix64 is the
  // generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014). Both pointers
  // are device memory.
  virtual void hash(const float* values, uint64_t* hashes) = 0;
};

}  // namespace ddp
