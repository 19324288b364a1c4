#include "core/error.h"
#include "ops/cuda/columns.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/reduce.cuh"
#include "ops/layer_norm.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// The values of one mean are a unit: `positions` rows of `width` neighbouring channels. A layer norm has a unit for
// each row, a group norm one for each group of a sample.
struct NormUnits {
  int64_t count;
  int groups, positions, width, channels;

  __device__ float values() const { return static_cast<float>(positions) * static_cast<float>(width); }  // of a unit
  __device__ int64_t first(int64_t unit) const {                                                         // element
    return unit / groups * positions * channels + unit % groups * width;
  }
  __device__ int64_t unit_of(int64_t element) const {
    return element / channels / positions * groups + element % channels / width;
  }
};

// A team of kTeam threads, a warp or a block, computes a unit. Returns the sums to all its threads.
template <int kTeam, int M>
__device__ Sums<M> sum_over_team(Sums<M> mine) {
  if constexpr (kTeam == kWarp) {
    for (int m = 0; m < M; ++m) mine.at[m] = sum_over_lanes(mine.at[m], kWarp);
    return mine;
  } else {
    __shared__ Sums<M> of_block;
    const Sums<M> total = sum_over_block(mine);
    if (threadIdx.x == 0) of_block = total;
    __syncthreads();
    return of_block;
  }
}

// Calls f(element, channel) for the packs of a thread in a unit.
template <int N, int kTeam, class F>
__device__ void each_pack_of_unit(const NormUnits& units, int64_t first, const F& f) {
  const int per_row = units.width / N, packs = per_row * units.positions;
  for (int pack = static_cast<int>(threadIdx.x) % kTeam; pack < packs; pack += kTeam) {
    const int64_t in_row = static_cast<int64_t>(pack % per_row) * N;
    const int64_t element = first + static_cast<int64_t>(pack / per_row) * units.channels + in_row;
    f(element, static_cast<int>(element % units.channels));
  }
}

template <int kTeam>
__device__ int64_t unit_of_thread() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads / kTeam) + threadIdx.x / kTeam;
}

// `saved` has two values for each unit: the mean less the first value of the unit, which keeps the digits of a
// deviation that is small beside the mean, and 1 / sqrt(var + epsilon).
template <class T, int N, int kTeam>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(const T* x, T* y, NormUnits units, const float* scale,
                                                              const float* shift, float epsilon, float* saved) {
  await_previous_kernel();
  const int64_t unit = unit_of_thread<kTeam>();
  if (unit >= units.count) return;
  const int64_t first = units.first(unit);
  const float center = to_float(x[first]), values = units.values();
  Sums<1> mine{};
  each_pack_of_unit<N, kTeam>(units, first, [&](int64_t i, int) {
    const auto pack = load<N>(x + i);
    for (int k = 0; k < N; ++k) mine.at[0] += pack.at[k] - center;
  });
  const float mean = sum_over_team<kTeam>(mine).at[0] / values;
  mine = {};
  each_pack_of_unit<N, kTeam>(units, first, [&](int64_t i, int) {
    const auto pack = load<N>(x + i);
    for (int k = 0; k < N; ++k) {
      const float distance = pack.at[k] - center - mean;
      mine.at[0] += distance * distance;
    }
  });
  const float inverse = 1 / std::sqrt(sum_over_team<kTeam>(mine).at[0] / values + epsilon);
  each_pack_of_unit<N, kTeam>(units, first, [&](int64_t i, int channel) {
    auto pack = load<N>(x + i);
    for (int k = 0; k < N; ++k)
      pack.at[k] = (pack.at[k] - center - mean) * inverse * scale[channel + k] + shift[channel + k];
    store<N>(y + i, pack);
  });
  if (threadIdx.x % kTeam == 0) {
    saved[2 * unit] = mean;
    saved[2 * unit + 1] = inverse;
  }
}

template <class T, int N, int kTeam>
__global__ void __launch_bounds__(kThreads) layer_norm_gradient_kernel(const T* x, const T* dy, T* dx, NormUnits units,
                                                                       const float* scale, const float* saved) {
  await_previous_kernel();
  const int64_t unit = unit_of_thread<kTeam>();
  if (unit >= units.count) return;
  const int64_t first = units.first(unit);
  const float center = to_float(x[first]), mean = saved[2 * unit], inverse = saved[2 * unit + 1];
  const float values = units.values();
  Sums<2> mine{};  // of g = dy * scale, and of g * xhat
  each_pack_of_unit<N, kTeam>(units, first, [&](int64_t i, int channel) {
    const auto pack = load<N>(x + i), gradients = load<N>(dy + i);
    for (int k = 0; k < N; ++k) {
      const float g = gradients.at[k] * scale[channel + k];
      mine.at[0] += g;
      mine.at[1] += g * ((pack.at[k] - center - mean) * inverse);
    }
  });
  const Sums<2> sums = sum_over_team<kTeam>(mine);
  const float mean_g = sums.at[0] / values, mean_product = sums.at[1] / values;
  each_pack_of_unit<N, kTeam>(units, first, [&](int64_t i, int channel) {
    const auto pack = load<N>(x + i);
    auto gradients = load<N>(dy + i);
    for (int k = 0; k < N; ++k) {
      const float xhat = (pack.at[k] - center - mean) * inverse;
      gradients.at[k] = (gradients.at[k] * scale[channel + k] - mean_g - xhat * mean_product) * inverse;
    }
    store<N>(dx + i, gradients);
  });
}

// dscale and dshift, as sums over the columns of a matrix (ops/cuda/columns.h).
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    parameter_gradient_kernel(const T* x, const T* dy, NormUnits units, const float* saved, ColumnPlan plan,
                              SumsOf<2> out) {
  await_previous_kernel();
  const ColumnPlace place(plan);
  struct Item {
    Pack<T, N> x, dy;
  };
  Pack<float, N> sums[2] = {};
  each_row<N, 2>(
      plan, place,
      [&](int64_t i) {
        return Item{load_raw<N>(x + i), load_raw<N>(dy + i)};
      },
      [&](int64_t i, const Item& item) {
        const int64_t unit = units.unit_of(i);
        const float center = to_float(x[units.first(unit)]), mean = saved[2 * unit], inverse = saved[2 * unit + 1];
        const auto values = to_floats(item.x), gradients = to_floats(item.dy);
        for (int k = 0; k < N; ++k) {
          sums[0].at[k] += gradients.at[k] * ((values.at[k] - center - mean) * inverse);
          sums[1].at[k] += gradients.at[k];
        }
      });
  sum_columns(plan, place, sums, out);
}

class CudaLayerNorm final : public LayerNorm {
 public:
  CudaLayerNorm(CudaContext& context, const LayerNormDesc& desc, std::span<const int64_t> batch_sizes)
      : context_(context),
        desc_(desc),
        channels_(desc.input.c),
        width_(desc.groups == 0 ? channels_ : channels_ / desc.groups),
        pack_(pack_width(context.activations(), width_)),
        spare_(context.device, bytes_of_floats(channels_)) {
    DDP_EXPECT(channels_ > 0 && channels_ % width_ == 0);
    for (const int64_t n : batch_sizes) {
      max_batch_ = std::max(max_batch_, n);
      context.workspace.reserve(bytes_of_floats(plan(n).partials(channels_, 2)));
    }
    saved_ = Buffer(context.device, bytes_of_floats(2 * units(max_batch_).count));
  }

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x);
    check(y);
    each_unit(x, [&]<class T, int N, int kTeam>(const NormUnits& all, int64_t blocks) {
      launch(context_.stream, blocks, kThreads, layer_norm_kernel<T, N, kTeam>, data<T>(x), data<T>(y), all, scale_,
             shift_, desc_.epsilon, saved_.as<float>());
    });
  }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, float* dscale, float* dshift,
                Gradient mode) override {
    check(x);
    check(dy);
    if (dscale || dshift) {
      const ColumnPlan columns = plan(x.shape.n);
      float* const spare = spare_.as<float>();
      const SumsOf<2> out{{dscale ? dscale : spare, dshift ? dshift : spare},
                          mode == Gradient::add,
                          static_cast<float*>(context_.workspace.data()),
                          context_.counters()};
      with_packs(x.dtype, pack_, [&]<class T, int N>() {
        launch(context_.stream, columns.blocks(), kThreads, parameter_gradient_kernel<T, N>, data<T>(x), data<T>(dy),
               units(x.shape.n), saved_.as<float>(), columns, out);
      });
    }
    if (!dx.data) return;
    check(dx);
    each_unit(x, [&]<class T, int N, int kTeam>(const NormUnits& all, int64_t blocks) {
      launch(context_.stream, blocks, kThreads, layer_norm_gradient_kernel<T, N, kTeam>, data<T>(x), data<T>(dy),
             data<T>(dx), all, scale_, saved_.as<float>());
    });
  }

 private:
  NormUnits units(int64_t n) const {
    const int64_t positions = desc_.input.h * desc_.input.w;
    const bool rows = desc_.groups == 0;
    return {rows ? n * positions : n * desc_.groups, rows ? 1 : static_cast<int>(desc_.groups),
            rows ? 1 : static_cast<int>(positions), static_cast<int>(width_), static_cast<int>(channels_)};
  }
  ColumnPlan plan(int64_t n) const {
    constexpr int kTileBytes = 128;
    const int bytes = pack_ * static_cast<int>(size_of(context_.activations()));
    return plan_columns(n * desc_.input.h * desc_.input.w, channels_ / pack_, kTileBytes / bytes, kFewRows);
  }

  // Calls f<T, N, kTeam>(units, blocks).
  template <class F>
  void each_unit(const Tensor& x, const F& f) const {
    const NormUnits all = units(x.shape.n);
    with_packs(x.dtype, pack_, [&]<class T, int N>() {
      if (desc_.groups == 0)
        f.template operator()<T, N, kWarp>(all, blocks_for(all.count, kThreads / kWarp));
      else
        f.template operator()<T, N, kThreads>(all, all.count);
    });
  }

  void check(const Tensor& t) const {
    DDP_EXPECT(t.format == Format{} && t.dtype == context_.activations() && t.shape.image == desc_.input);
    DDP_EXPECT(t.data && aligned(t.data) && t.shape.n <= max_batch_);
  }

  CudaContext& context_;
  LayerNormDesc desc_;
  int64_t channels_, width_;
  int pack_;
  int64_t max_batch_ = 0;  // samples
  Buffer spare_;           // takes the sums of a frozen parameter
  Buffer saved_;           // from the last forward
  const float *scale_ = nullptr, *shift_ = nullptr;
};

}  // namespace

std::unique_ptr<LayerNorm> CudaOps::layer_norm(const LayerNormDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CudaLayerNorm>(context_, desc, batch_sizes);
}

}  // namespace ddp
