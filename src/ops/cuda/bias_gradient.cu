#include "core/error.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <algorithm>

namespace ddp {
namespace {

// The bias gradient sums the columns of a matrix of rows x channels. A block takes `width` neighbouring columns of
// packs, with its threads in `lanes` rows, and every groups-th set of lanes; it adds up its lanes in a tree. Where
// there are few rows there is one group, and it writes the result. Else each group writes partial sums
// [channel][group], which a second kernel adds, one warp a channel. All orders follow from the shape alone.
struct BiasPlan {
  int64_t rows;
  int packs, width, lanes, tiles, groups;  // packs: in a row; tiles: blocks side by side, which cover them

  int64_t partials(int64_t channels) const { return groups > 1 ? channels * groups : 0; }
};

BiasPlan plan_bias(int64_t rows, int64_t channels, int pack) {
  constexpr int kNarrow = 8;         // packs
  constexpr int64_t kFewSteps = 16;  // for which a second kernel does not pay
  constexpr int64_t kSteps = 4;      // the least for a group
  constexpr int64_t kMostGroups = 4 * 132;
  BiasPlan plan{rows, static_cast<int>(channels / pack), 0, 0, 0, 1};
  const auto tile = [&](int most) {
    plan.tiles = (plan.packs + most - 1) / most;
    plan.width = (plan.packs + plan.tiles - 1) / plan.tiles;
    plan.lanes = kThreads / plan.width;
    return (rows + plan.lanes - 1) / plan.lanes;
  };
  if (tile(kNarrow) <= kFewSteps) return plan;
  const int64_t steps = tile(kThreads);
  plan.groups = static_cast<int>(
      std::clamp<int64_t>((steps + kSteps - 1) / kSteps, 1, std::max<int64_t>(kMostGroups / plan.tiles, 1)));
  return plan;
}

template <class T, int N>
__global__ void bias_kernel(const T* y, T* dy, BiasPlan plan, float* partials, float* dbias, bool add) {
  __shared__ float sums[N][kThreads];
  const int thread = threadIdx.x, tile = blockIdx.x % plan.tiles, group = blockIdx.x / plan.tiles;
  const int lane = thread / plan.width, column = tile * plan.width + thread % plan.width;
  const bool mine = lane < plan.lanes && column < plan.packs;

  Pack<float, N> sum{};
  const int64_t first = mine ? static_cast<int64_t>(group) * plan.lanes + lane : plan.rows;
  for (int64_t row = first; row < plan.rows; row += static_cast<int64_t>(plan.groups) * plan.lanes) {
    const int64_t i = (row * plan.packs + column) * N;
    auto gradients = load<N>(dy + i);
    if (y) {
      const auto outputs = load<N>(y + i);
      for (int k = 0; k < N; ++k) gradients.at[k] = ReluGradient{}(outputs.at[k], gradients.at[k]);
      store<N>(dy + i, gradients);
    }
    for (int k = 0; k < N; ++k) sum.at[k] += gradients.at[k];
  }

  for (int k = 0; k < N; ++k) sums[k][thread] = sum.at[k];
  for (int lanes = plan.lanes; lanes > 1;) {
    const int half = (lanes + 1) / 2;
    __syncthreads();
    if (lane < lanes - half)
      for (int k = 0; k < N; ++k) sums[k][thread] += sums[k][thread + half * plan.width];
    lanes = half;
  }

  if (!mine || lane > 0) return;
  for (int k = 0; k < N; ++k) {
    const int channel = column * N + k;
    if (plan.groups > 1)
      partials[static_cast<int64_t>(channel) * plan.groups + group] = sums[k][thread];
    else
      dbias[channel] = (add ? dbias[channel] : 0.0f) + sums[k][thread];
  }
}

__global__ void add_partials_kernel(const float* partials, int groups, int channels, float* dbias, bool add) {
  const int channel = grid_thread() / kWarp, lane = grid_thread() % kWarp;
  if (channel >= channels) return;
  float sum = 0;
  for (int group = lane; group < groups; group += kWarp)
    sum += partials[static_cast<int64_t>(channel) * groups + group];
  sum = sum_over_lanes(sum, kWarp);
  if (lane == 0) dbias[channel] = (add ? dbias[channel] : 0.0f) + sum;
}

}  // namespace

void reserve_bias_gradient(CudaContext& context, int64_t rows, int64_t channels) {
  for (const DType type : {DType::f32, DType::bf16})
    context.workspace.reserve(plan_bias(rows, channels, pack_width(type, channels)).partials(channels) * sizeof(float));
}

void bias_gradient(CudaContext& context, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode) {
  const int64_t channels = dy.shape.image.c, rows = dy.shape.elements() / channels;
  const int width = pack_width(dy.dtype, channels);
  const BiasPlan plan = plan_bias(rows, channels, width);
  const bool add = mode == Gradient::add;
  DDP_EXPECT(dy.format == Format{} && aligned(y.data, dy.data));
  DDP_EXPECT(!y.data || (y.format == Format{} && y.dtype == dy.dtype && y.shape == dy.shape));
  DDP_EXPECT(context.workspace.bytes() >= plan.partials(channels) * sizeof(float));
  float* partials = static_cast<float*>(context.workspace.data());
  with_packs(dy.dtype, width, [&]<class T, int N>() {
    launch(context.stream, plan.tiles * plan.groups, kThreads, bias_kernel<T, N>, data<T>(y), data<T>(dy), plan,
           partials, dbias, add);
  });
  if (plan.groups > 1)
    launch(context.stream, blocks_for(channels * kWarp, kThreads), kThreads, add_partials_kernel, partials, plan.groups,
           channels, dbias, add);
}

}  // namespace ddp
