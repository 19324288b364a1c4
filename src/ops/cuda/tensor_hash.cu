#include "core/error.h"
#include "device/buffer.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

using Word = unsigned long long;  // the type of atomicAdd

// Part of a tensor, for one block.
struct HashedPart {
  int64_t offset;  // of the tensor, in the flat buffer
  uint32_t first, end, tensor;
};

std::vector<HashedPart> parts_of(std::span<const HashedSpan> tensors) {
  constexpr int64_t kPart = 64 * kThreads;
  std::vector<HashedPart> parts;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto [offset, count] = tensors[t];
    DDP_EXPECT(count <= UINT32_MAX);
    for (int64_t first = 0; first < count; first += kPart)
      parts.push_back({offset, static_cast<uint32_t>(first), static_cast<uint32_t>(std::min(first + kPart, count)),
                       static_cast<uint32_t>(t)});
  }
  return parts;
}

// Sums of integers have the same value in any order.
__global__ void tensor_hash_kernel(const HashedPart* parts, const uint32_t* bits, Word* hashes) {
  await_previous_kernel();
  const HashedPart part = parts[blockIdx.x];
  Word sum = 0;
  for (int64_t i = int64_t{part.first} + threadIdx.x; i < part.end; i += kThreads)
    sum += ElementHash{}(i, bits[part.offset + i]);
  sum = sum_over_lanes(sum, kWarp);
  if (threadIdx.x % kWarp == 0) atomicAdd(&hashes[part.tensor], sum);
}

class CudaTensorHash final : public TensorHash {
 public:
  CudaTensorHash(CudaContext& context, std::span<const HashedSpan> tensors)
      : context_(context), tensors_(tensors.size()) {
    const std::vector<HashedPart> parts = parts_of(tensors);
    count_ = std::ssize(parts);
    parts_ = Buffer(context.device, parts.size() * sizeof(HashedPart));
    context.device.upload(parts_.data(), parts.data(), parts_.bytes());
  }

  void hash(const float* values, uint64_t* hashes) override {
    context_.device.zero(hashes, tensors_ * sizeof(uint64_t));
    launch(context_.stream, count_, kThreads, tensor_hash_kernel, parts_.as<const HashedPart>(),
           reinterpret_cast<const uint32_t*>(values), reinterpret_cast<Word*>(hashes));
  }

 private:
  CudaContext& context_;
  size_t tensors_;
  int64_t count_ = 0;
  Buffer parts_;
};

}  // namespace

std::unique_ptr<TensorHash> CudaOps::tensor_hash(std::span<const HashedSpan> tensors) {
  return std::make_unique<CudaTensorHash>(context_, tensors);
}

}  // namespace ddp
