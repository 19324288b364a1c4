#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/functors.h"

#include <atomic>
#include <bit>
#include <vector>

namespace ddp {
namespace {

class CpuTensorHash final : public TensorHash {
 public:
  CpuTensorHash(const Workers& workers, std::span<const HashedSpan> tensors)
      : workers_(workers), tensors_(tensors.begin(), tensors.end()) {
    for (const HashedSpan& tensor : tensors) DDP_EXPECT(tensor.count <= UINT32_MAX);
  }

  void hash(const float* values, uint64_t* hashes) override {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const float* const elements = values + tensors_[t].offset;
      std::atomic<uint64_t> all = 0;
      workers_.spans(tensors_[t].count, [&](int64_t first, int64_t end) {
        uint64_t sum = 0;
        for (int64_t i = first; i < end; ++i) sum += ElementHash{}(i, std::bit_cast<uint32_t>(elements[i]));
        all += sum;
      });
      hashes[t] = all;
    }
  }

 private:
  Workers workers_;
  std::vector<HashedSpan> tensors_;
};

}  // namespace

std::unique_ptr<TensorHash> CpuOps::tensor_hash(std::span<const HashedSpan> tensors) {
  return std::make_unique<CpuTensorHash>(workers_, tensors);
}

}  // namespace ddp
