#include "core/error.h"
#include "ops/cuda/clipping.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

// Each block writes the sum of its share; the shares depend on the count only. A second kernel of one block adds them.
template <int W>
__global__ void squares_kernel(const float* values, int64_t count, float* partials) {
  Sums<1> mine{};
  each_pack<W>(count, [&]<int N>(int64_t i) {
    for (const float v : load_raw<N>(values + i).at) mine.at[0] += v * v;
  });
  const Sums<1> sum = sum_over_block(mine);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum.at[0];
}

__global__ void add_squares_kernel(const float* partials, int count, float* sum, bool add) {
  Sums<1> mine{};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) mine.at[0] += partials[i];
  const Sums<1> all = sum_over_block(mine);
  if (threadIdx.x == 0) *sum = (add ? *sum : 0.0f) + all.at[0];
}

__global__ void clip_scale_kernel(const float* sum, float limit, float* scale) { *scale = ClipScale{limit}(*sum); }

}  // namespace

void reserve_sum_of_squares(CudaContext& context) { context.workspace.reserve(kMaxBlocks * sizeof(float)); }

void sum_of_squares(CudaContext& context, const float* values, int64_t count, float* sum, Gradient mode) {
  const auto start = [&]<int N>() {
    const int64_t blocks = blocks_over(count / N + 1);
    float* partials = static_cast<float*>(context.workspace.data());
    DDP_EXPECT(context.workspace.bytes() >= blocks * sizeof(float));
    launch(context.stream, blocks, kThreads, squares_kernel<N>, values, count, partials);
    launch(context.stream, 1, kThreads, add_squares_kernel, partials, blocks, sum, mode == Gradient::add);
  };
  aligned(values) ? start.operator()<4>() : start.operator()<1>();
}

void clip_scale(CudaContext& context, const float* sum, float limit, float* scale) {
  launch(context.stream, 1, 1, clip_scale_kernel, sum, limit, scale);
}

}  // namespace ddp
