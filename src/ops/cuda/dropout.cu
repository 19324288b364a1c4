#include "core/error.h"
#include "core/philox.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

// word[element % 4] without an array index: an index would move the array from registers to memory.
__device__ uint32_t word_of(const Bits128& bits, uint32_t element) {
  const uint32_t low = element & 1 ? bits.word[1] : bits.word[0], high = element & 1 ? bits.word[3] : bits.word[2];
  return element & 2 ? high : low;
}

struct Randomness {
  uint64_t seed;
  const uint32_t* epoch;
  uint32_t operation;
  DropoutFactor factor;
  bool whole_sample;
};

template <class T, int N>
__global__ void dropout_kernel(const T* x, T* y, const int32_t* keys, Randomness random, uint32_t features,
                               uint32_t packs) {
  await_previous_kernel();
  const uint32_t epoch = *random.epoch;
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t sample = pack / (features / N), first = pack % (features / N) * N;
    const uint32_t key = static_cast<uint32_t>(keys[sample]);
    const int64_t i = static_cast<int64_t>(pack) * N;
    auto values = load<N>(x + i);
    Bits128 bits;
    for (uint32_t k = 0; k < N; ++k) {
      const uint32_t element = random.whole_sample ? 0 : first + k;
      if (k % 4 == 0) bits = philox4x32({{element / 4, key, epoch, random.operation}}, random.seed);
      values.at[k] *= random.factor(word_of(bits, element));
    }
    store<N>(y + i, values);
  }
}

}  // namespace

void CudaOps::dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype && x.shape == y.shape);
  DDP_EXPECT(batch.size == x.shape.n && batch.keys && x.shape.elements() < INT32_MAX);
  DDP_EXPECT(dropout.epoch && dropout.rate >= 0 && dropout.rate < 1);
  const Randomness random{dropout.seed, dropout.epoch, dropout_operation(dropout), dropout_factor(dropout),
                          dropout.whole_sample};
  const int64_t features = x.shape.image.elements();
  with_packs(x.dtype, aligned(x.data, y.data) ? pack_width(x.dtype, features) : 1, [&]<class T, int N>() {
    const int64_t packs = x.shape.elements() / N;
    launch(context_.stream, blocks_over(packs), kThreads, dropout_kernel<T, N>, data<T>(x), data<T>(y), batch.keys,
           random, features, packs);
  });
}

}  // namespace ddp
