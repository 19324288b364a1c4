#include "core/error.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/columns.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

ColumnPlan plan_bias(int64_t rows, int64_t channels, int pack) {
  return plan_columns(rows, channels / pack, kMaxTileWidth, kFewRows);
}

template <class T, int N>
struct BiasItem {
  Pack<T, N> y, dy;
};

template <class T, int N>
__global__ void bias_kernel(const T* y, T* dy, ColumnPlan plan, SumsOf<1> dbias) {
  await_previous_kernel();
  const ColumnPlace place(plan);
  Pack<float, N> sums[1] = {};
  const auto load_item = [&](int64_t i) {
    BiasItem<T, N> item;
    if (y) item.y = load_raw<N>(y + i);
    item.dy = load_raw<N>(dy + i);
    return item;
  };
  each_row<N, 2>(plan, place, load_item, [&](int64_t i, const BiasItem<T, N>& item) {
    auto gradients = to_floats(item.dy);
    if (y) {
      const auto outputs = to_floats(item.y);
      for (int k = 0; k < N; ++k) gradients.at[k] = ReluGradient{}(outputs.at[k], gradients.at[k]);
      store<N>(dy + i, gradients);
    }
    for (int k = 0; k < N; ++k) sums[0].at[k] += gradients.at[k];
  });
  if (dbias.at[0]) sum_columns(plan, place, sums, dbias);
}

}  // namespace

void reserve_bias_gradient(CudaContext& context, int64_t rows, int64_t channels) {
  for (const DType type : {DType::f32, DType::bf16})
    context.workspace.reserve(plan_bias(rows, channels, pack_width(type, channels)).partials(channels, 1) *
                              sizeof(float));
}

void bias_gradient(CudaContext& context, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode) {
  if (!y.data && !dbias) return;
  const int64_t channels = dy.shape.image.c, rows = dy.shape.elements() / channels;
  const int width = pack_width(dy.dtype, channels);
  const ColumnPlan plan = plan_bias(rows, channels, width);
  DDP_EXPECT(dy.format == Format{} && aligned(y.data, dy.data));
  DDP_EXPECT(!y.data || (y.format == Format{} && y.dtype == dy.dtype && y.shape == dy.shape));
  DDP_EXPECT(!dbias || context.workspace.bytes() >= plan.partials(channels, 1) * sizeof(float));
  const SumsOf<1> to{{dbias}, mode == Gradient::add, static_cast<float*>(context.workspace.data()), context.counters()};
  with_packs(dy.dtype, width, [&]<class T, int N>() {
    launch(context.stream, plan.blocks(), kThreads, bias_kernel<T, N>, data<T>(y), data<T>(dy), plan, to);
  });
}

}  // namespace ddp
