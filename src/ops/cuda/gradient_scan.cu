#include "ops/cuda/chunks.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <limits>
#include <vector>

namespace ddp {
namespace {

struct Chunk {
  int64_t begin, end;  // elements of the flat buffer
  float mark;
  bool bf16;
};

struct Arguments {
  float* gradients;
  const Bf16* bf16;  // may be null
  bool add;          // of the gradients in bf16
  float* flag;
  float* squares;
  bool add_squares;
  float *block_squares, *block_marks;  // of each block; a mark is infinite where all values are finite
  unsigned* counter;
};

// The last block adds the squares of all blocks in their order, and finds the least mark.
__device__ void finish(const Arguments& a) {
  __shared__ unsigned least;  // bits: marks are above 0, so they have the order of their bits
  const float infinity = std::numeric_limits<float>::infinity();
  if (threadIdx.x == 0) least = __float_as_uint(infinity);
  __syncthreads();
  Sums<1> mine{};
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) {
    mine.at[0] += __ldcg(a.block_squares + i);
    const float mark = __ldcg(a.block_marks + i);
    if (mark < infinity) atomicMin(&least, __float_as_uint(mark));
  }
  const Sums<1> all = sum_over_block(mine);
  if (threadIdx.x > 0) return;
  *a.squares = (a.add_squares ? *a.squares : 0.0f) + all.at[0];
  const float mark = __uint_as_float(least);
  if (mark < infinity && *a.flag == 0) *a.flag = mark;
}

template <int W>
__global__ void scan_kernel(const Chunk* chunks, Arguments a) {
  await_previous_kernel();
  const Chunk chunk = chunks[blockIdx.x];
  const bool take = a.bf16 && chunk.bf16;
  Sums<1> mine{};
  bool bad = false;
  each_of_block<W>(chunk.begin, chunk.end, [&]<int N>(int64_t i) {
    Pack<float, N> values;
    if (take) {
      values = load<N>(a.bf16 + i);
      if (a.add) {
        const auto before = load<N>(a.gradients + i);
        for (int k = 0; k < N; ++k) values.at[k] += before.at[k];
      }
      store<N>(a.gradients + i, values);
    } else {
      values = load<N>(a.gradients + i);
    }
    for (const float v : values.at) {
      bad |= IsNonfinite{}(__float_as_uint(v));
      mine.at[0] += v * v;
    }
  });
  const bool any = __syncthreads_or(bad);
  const Sums<1> sum = sum_over_block(mine);
  if (threadIdx.x == 0) {
    __stcg(a.block_squares + blockIdx.x, sum.at[0]);
    __stcg(a.block_marks + blockIdx.x, any ? chunk.mark : std::numeric_limits<float>::infinity());
  }
  if (last_block(a.counter, gridDim.x)) finish(a);
}

class CudaGradientScan final : public GradientScan {
 public:
  CudaGradientScan(CudaContext& context, std::span<const ScannedTensor> tensors)
      : context_(context),
        host_chunks_(make_chunks<Chunk>(tensors,
                                        [&](Chunk& chunk, size_t i) {
                                          chunk.mark = tensors[i].mark;
                                          chunk.bf16 = tensors[i].bf16;
                                        })),
        chunks_(uploaded(context.device, host_chunks_)) {
    context.workspace.reserve(2 * host_chunks_.size() * sizeof(float));
  }

  void run(const ScannedPart& part, float* flag, float* squares, Gradient squares_mode) override {
    const std::span<const Chunk> all(host_chunks_), mine = chunks_in(all, part.begin, part.begin + part.count);
    DDP_EXPECT(!mine.empty() && mine.front().begin >= part.begin && mine.back().end <= part.begin + part.count);
    auto* const partials = static_cast<float*>(context_.workspace.data());
    const Arguments arguments{.gradients = part.gradients,
                              .bf16 = reinterpret_cast<const Bf16*>(part.bf16),
                              .add = part.mode == Gradient::add,
                              .flag = flag,
                              .squares = squares,
                              .add_squares = squares_mode == Gradient::add,
                              .block_squares = partials,
                              .block_marks = partials + mine.size(),
                              .counter = context_.counters()};
    const bool wide = aligned(part.gradients, part.bf16);
    launch(context_.stream, std::ssize(mine), kThreads, wide ? scan_kernel<4> : scan_kernel<1>,
           chunks_.as<const Chunk>() + (mine.data() - host_chunks_.data()), arguments);
  }

 private:
  CudaContext& context_;
  std::vector<Chunk> host_chunks_;
  Buffer chunks_;
};

}  // namespace

std::unique_ptr<GradientScan> CudaOps::gradient_scan(std::span<const ScannedTensor> tensors) {
  return std::make_unique<CudaGradientScan>(context_, tensors);
}

}  // namespace ddp
