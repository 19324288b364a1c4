#include "core/error.h"
#include "ops/cuda/columns.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/functors.h"

#include <numeric>

namespace ddp {
namespace {

template <class T, int N>
__global__ void gate_kernel(const T* x, const T* s, T* y, uint32_t sample, uint32_t channels, uint32_t packs) {
  await_previous_kernel();
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t i = pack * N;
    auto values = load<N>(x + i);
    const auto factors = load<N>(s + i / sample * channels + i % channels);
    for (int k = 0; k < N; ++k) values.at[k] = ScaleAndShift{factors.at[k], 0}(values.at[k]);
    store<N>(y + i, values);
  }
}

template <class T, int N>
struct ScaledItem {
  Pack<T, N> x, dy;
};

// Group g of the plan's blocks is sample g; its thread rows share the sample's positions.
template <class T, int N>
__global__ void gate_backward_kernel(const T* x, const T* s, const T* dy, T* dx, T* ds, ColumnPlan plan) {
  await_previous_kernel();
  __shared__ float sums[N][kThreads];
  ColumnPlace place(plan);
  const int64_t channels = static_cast<int64_t>(plan.packs) * N, channel = static_cast<int64_t>(place.column) * N;
  const int64_t sample = place.group * plan.rows * channels, at_gate = place.group * channels + channel;
  place.group = 0;
  Pack<float, N> factors{}, mine{};
  if (place.active) factors = load<N>(s + at_gate);
  const auto load_item = [&](int64_t i) {
    ScaledItem<T, N> item;
    if (ds) item.x = load_raw<N>(x + sample + i);
    item.dy = load_raw<N>(dy + sample + i);
    return item;
  };
  each_row<N, 2>(plan, place, load_item, [&](int64_t i, const ScaledItem<T, N>& item) {
    auto gradients = to_floats(item.dy);
    if (ds) {
      const auto values = to_floats(item.x);
      for (int k = 0; k < N; ++k) mine.at[k] += gradients.at[k] * values.at[k];
    }
    for (int k = 0; k < N; ++k) gradients.at[k] = ScaleAndShift{factors.at[k], 0}(gradients.at[k]);
    if (dx) store<N>(dx + sample + i, gradients);
  });
  if (!ds) return;
  for (int k = 0; k < N; ++k) sums[k][threadIdx.x] = mine.at[k];
  for (int rows = plan.thread_rows; rows > 1;) {
    const int half = (rows + 1) / 2;
    __syncthreads();
    if (place.thread_row < rows - half)
      for (int k = 0; k < N; ++k) sums[k][threadIdx.x] += sums[k][threadIdx.x + half * plan.width];
    rows = half;
  }
  if (!place.active || place.thread_row > 0) return;
  for (int k = 0; k < N; ++k) mine.at[k] = sums[k][threadIdx.x];
  store<N>(ds + at_gate, mine);
}

template <class T, int N>
__global__ void scale_channels_kernel(const T* x, const float* scale, const float* shift, T* y, uint32_t channels,
                                      uint32_t packs) {
  await_previous_kernel();
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t i = pack * N, c = i % channels;
    auto values = load<N>(x + i);
    for (int k = 0; k < N; ++k)
      values.at[k] = ScaleAndShift{scale ? scale[c + k] : 1, shift ? shift[c + k] : 0}(values.at[k]);
    store<N>(y + i, values);
  }
}

// Of the plan's columns, which start at column `first`; the rows of x, dy and dx have `gap` columns more.
template <class T, int N>
__global__ void scale_backward_kernel(const T* x, const float* scale, const T* dy, T* dx, int64_t first, int64_t gap,
                                      ColumnPlan plan, SumsOf<1> dscale) {
  await_previous_kernel();
  const ColumnPlace place(plan);
  const int64_t channels = static_cast<int64_t>(plan.packs) * N, channel = static_cast<int64_t>(place.column) * N;
  const auto at = [&](int64_t i) { return first + i + (gap > 0 ? i / channels * gap : 0); };
  Pack<float, N> factors, sums[1] = {};
  for (int k = 0; k < N; ++k) factors.at[k] = scale && place.active ? scale[channel + k] : 1;
  const auto load_item = [&](int64_t i) {
    ScaledItem<T, N> item;
    if (x) item.x = load_raw<N>(x + at(i));
    item.dy = load_raw<N>(dy + at(i));
    return item;
  };
  each_row<N, 2>(plan, place, load_item, [&](int64_t i, const ScaledItem<T, N>& item) {
    auto gradients = to_floats(item.dy);
    if (x) {
      const auto values = to_floats(item.x);
      for (int k = 0; k < N; ++k) sums[0].at[k] += gradients.at[k] * values.at[k];
    } else {
      for (int k = 0; k < N; ++k) sums[0].at[k] += gradients.at[k];
    }
    if (!dx) return;
    for (int k = 0; k < N; ++k) gradients.at[k] = ScaleAndShift{factors.at[k], 0}(gradients.at[k]);
    store<N>(dx + at(i), gradients);
  });
  if (dscale.at[0]) sum_columns(plan, place, sums, dscale);
}

// plan_columns() makes at most 2 * 132 blocks where a tile has several; each has kMaxTileWidth packs at most.
constexpr int64_t kMostSums = int64_t{2} * 132 * kMaxTileWidth * 8;

void scale_gradients(const CudaContext& context, const Tensor& x, const float* scale, const Tensor& dy,
                     const Tensor& dx, int64_t first, int64_t count, float* sums, Gradient mode) {
  const int64_t row = dy.shape.image.c, rows = dy.shape.elements() / row;
  const int64_t places = std::gcd(count, std::gcd(first, row));
  const int width = aligned(x.data, dy.data, dx.data) ? pack_width(dy.dtype, places) : 1;
  const ColumnPlan plan = plan_columns(rows, count / width, kMaxTileWidth, kFewRows);
  DDP_EXPECT(context.workspace.bytes() >= plan.partials(count, 1) * sizeof(float));
  const SumsOf<1> to{{sums}, mode == Gradient::add, static_cast<float*>(context.workspace.data()), context.counters()};
  with_packs(dy.dtype, width, [&]<class T, int N>() {
    launch(context.stream, plan.blocks(), kThreads, scale_backward_kernel<T, N>, data<T>(x), scale, data<T>(dy),
           data<T>(dx), first, row - count, plan, to);
  });
}

bool is_gate_of(const Tensor& s, const Tensor& x) {
  return s.format == Format{} && s.dtype == x.dtype && s.shape == Shape{x.shape.n, {1, 1, x.shape.image.c}};
}

bool is_dense_like(const Tensor& a, const Tensor& x) {
  return a.format == Format{} && a.dtype == x.dtype && a.shape == x.shape;
}

}  // namespace

void reserve_channel_sums(CudaContext& context) { context.workspace.reserve(kMostSums * sizeof(float)); }

void CudaOps::gate(const Tensor& x, const Tensor& s, const Tensor& y) {
  DDP_EXPECT(is_dense_like(x, x) && is_dense_like(y, x) && is_gate_of(s, x) && x.shape.elements() < INT32_MAX);
  const int64_t channels = x.shape.image.c;
  const int width = aligned(x.data, s.data, y.data) ? pack_width(x.dtype, channels) : 1;
  with_packs(x.dtype, width, [&]<class T, int N>() {
    const int64_t packs = x.shape.elements() / N;
    launch(context_.stream, blocks_over(packs), kThreads, gate_kernel<T, N>, data<T>(x), data<T>(s), data<T>(y),
           x.shape.image.elements(), channels, packs);
  });
}

void CudaOps::gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx, const Tensor& ds) {
  DDP_EXPECT(is_dense_like(dy, dy) && is_dense_like(x, dy) && is_gate_of(s, x));
  DDP_EXPECT((!dx.data || is_dense_like(dx, x)) && (!ds.data || is_gate_of(ds, x)));
  constexpr int kNarrow = 8;  // packs per tile: many blocks for each sample
  const int64_t channels = x.shape.image.c;
  const int width = aligned(x.data, s.data, dy.data, dx.data, ds.data) ? pack_width(x.dtype, channels) : 1;
  const ColumnPlan plan = plan_columns(x.shape.image.h * x.shape.image.w, channels / width, kNarrow, INT64_MAX);
  with_packs(x.dtype, width, [&]<class T, int N>() {
    launch(context_.stream, x.shape.n * plan.tiles, kThreads, gate_backward_kernel<T, N>, data<T>(x), data<T>(s),
           data<T>(dy), data<T>(dx), data<T>(ds), plan);
  });
}

void CudaOps::scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) {
  DDP_EXPECT(is_dense_like(x, x) && is_dense_like(y, x) && x.shape.elements() < INT32_MAX);
  const int64_t channels = x.shape.image.c;
  const int width = aligned(x.data, y.data) ? pack_width(x.dtype, channels) : 1;
  with_packs(x.dtype, width, [&]<class T, int N>() {
    const int64_t packs = x.shape.elements() / N;
    launch(context_.stream, blocks_over(packs), kThreads, scale_channels_kernel<T, N>, data<T>(x), scale, shift,
           data<T>(y), channels, packs);
  });
}

void CudaOps::scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx,
                                      float* dscale, Gradient mode) {
  DDP_EXPECT(is_dense_like(dy, dy) && (!dscale || is_dense_like(x, dy)) && (!dx.data || is_dense_like(dx, dy)));
  scale_gradients(context_, dscale ? x : Tensor{}, scale, dy, dx, 0, dy.shape.image.c, dscale, mode);
}

void CudaOps::sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) {
  DDP_EXPECT(is_dense_like(dy, dy) && first >= 0 && first + count <= dy.shape.image.c);
  if (count == 0) return;
  scale_gradients(context_, {}, nullptr, dy, {}, first, count, sums, mode);
}

}  // namespace ddp
