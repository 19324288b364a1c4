#include "tests/ops/reference/plans.h"

#include <cstring>
#include <vector>

namespace ddp::reference {
namespace {

// The generator's state starts at `seed`; its first number.
uint64_t splitmix64(uint64_t seed) {
  uint64_t z = seed + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

class ReferenceTensorHash final : public TensorHash {
 public:
  explicit ReferenceTensorHash(std::span<const HashedSpan> tensors) : tensors_(tensors.begin(), tensors.end()) {}

  void hash(const float* values, uint64_t* hashes) override {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      hashes[t] = 0;
      for (int64_t i = 0; i < tensors_[t].count; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, values + tensors_[t].offset + i, sizeof bits);
        hashes[t] += splitmix64(static_cast<uint64_t>(i) * 0x100000000 + bits);
      }
    }
  }

 private:
  std::vector<HashedSpan> tensors_;
};

}  // namespace

std::unique_ptr<TensorHash> make_tensor_hash(std::span<const HashedSpan> tensors) {
  return std::make_unique<ReferenceTensorHash>(tensors);
}

}  // namespace ddp::reference
