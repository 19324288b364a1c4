#include "core/error.h"
#include "ops/activation_functors.h"
#include "ops/cuda/columns.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <algorithm>

namespace ddp {
namespace {

// All kernels work on tiles of columns (ops/cuda/columns.h) of at most 128 bytes. So there are few partial sums, and
// each thread keeps the values of its channels in registers. Each block computes the values of a channel once, and
// shares them with its threads in shared memory.
constexpr int kTileBytes = 128;
constexpr int kTileChannels = kTileBytes / 2;
constexpr int kBlocksAtOnce = 3, kSumBlocksAtOnce = 2;  // resident blocks per multiprocessor

ColumnPlan plan_of(int64_t rows, int64_t channels, DType type, int pack, bool sums) {
  return plan_columns(rows, channels / pack, kTileBytes / (pack * static_cast<int>(size_of(type))),
                      sums ? kFewRows : 0);
}

// Calls f(channel, channel in the tile) for each channel of the block's tile, with one thread per channel.
template <int N, class F>
__device__ void each_channel(const ColumnPlan& plan, const ColumnPlace& place, const F& f) {
  const int thread = threadIdx.x, channel = place.tile * plan.width * N + thread;
  if (thread < plan.width * N && channel < plan.packs * N) f(channel, thread);
  __syncthreads();
}

// The ReLU's mask: a byte for each pack, with a bit for each value above 0 and for each NaN.
template <class T, int N>
__device__ uint8_t positive_of(const Pack<T, N>& values) {
  static_assert(N <= 8);
  unsigned bits = 0;
  for (int k = 0; k < N; ++k) bits |= (to_float(values.at[k]) <= 0 ? 0u : 1u) << k;
  return static_cast<uint8_t>(bits);
}

template <int N>
__device__ Pack<float, N> where(uint8_t positive, Pack<float, N> values) {
  for (int k = 0; k < N; ++k) values.at[k] = positive >> k & 1 ? values.at[k] : 0.0f;
  return values;
}

template <class T, int N>
struct TwoPacks {
  Pack<T, N> a, b;
};

template <class T, int N>
__global__ void __launch_bounds__(kThreads, kSumBlocksAtOnce)
    sum_kernel(const T* x, const float* center, ColumnPlan plan, SumsOf<2> out) {
  await_previous_kernel();
  const ColumnPlace place(plan);
  Pack<float, N> centers{}, sums[2] = {};
  if (center && place.active)
    for (int k = 0; k < N; ++k) centers.at[k] = center[place.column * N + k];
  each_row<N, 4>(
      plan, place, [&](int64_t i) { return load_raw<N>(x + i); },
      [&](int64_t, const Pack<T, N>& raw) {
        const auto values = to_floats(raw);
        for (int k = 0; k < N; ++k) {
          const float difference = values.at[k] - centers.at[k];
          sums[0].at[k] += difference;
          sums[1].at[k] += difference * difference;
        }
      });
  sum_columns(plan, place, sums, out);
}

// Mean and variance: computed from `sums` if that is not null, else given.
struct Statistics {
  const float *center, *sums;
  float count;
  const float *mean, *variance;
};

struct Affine {
  const float *scale, *shift;  // may be null
  float epsilon;
};

// kFunction: `activation` is another function than a ReLU. Its body is large, and two rows at a time would leave the
// registers.
template <class T, int N, bool kFunction>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    forward_kernel(const T* x, const T* skip, T* y, ColumnPlan plan, Statistics from, Affine affine, bool relu,
                   Activation activation, float* saved, uint8_t* positive) {
  await_previous_kernel();
  __shared__ BatchNormForward per_channel[kTileChannels];
  const ColumnPlace place(plan);
  const int channels = plan.packs * N;
  each_channel<N>(plan, place, [&](int c, int in_tile) {
    float mean, variance;
    if (from.sums) {
      const MomentsOf<float> moments(from.sums[c], from.sums[channels + c], from.count);
      mean = moments.offset + (from.center ? from.center[c] : 0.0f);
      variance = moments.variance;
    } else {
      mean = from.mean[c];
      variance = from.variance[c];
    }
    const float inverse_deviation = 1 / std::sqrt(variance + affine.epsilon);
    per_channel[in_tile] = {mean, (affine.scale ? affine.scale[c] : 1.0f) * inverse_deviation,
                            affine.shift ? affine.shift[c] : 0.0f};
    if (saved && place.group == 0) {
      saved[c] = mean;
      saved[channels + c] = inverse_deviation;
    }
  });
  BatchNormForward normalize[N] = {};
  if (place.active)
    for (int k = 0; k < N; ++k) normalize[k] = per_channel[threadIdx.x % plan.width * N + k];

  const auto load_packs = [&](int64_t i) {
    TwoPacks<T, N> packs;
    packs.a = load_raw<N>(x + i);
    if (skip) packs.b = load_raw<N>(skip + i);
    return packs;
  };
  each_row<N, kFunction ? 1 : 2>(plan, place, load_packs, [&](int64_t i, const TwoPacks<T, N>& packs) {
    auto values = to_floats(packs.a);
    for (int k = 0; k < N; ++k) values.at[k] = normalize[k](values.at[k]);
    if (skip) {
      const auto more = to_floats(packs.b);
      for (int k = 0; k < N; ++k) values.at[k] += more.at[k];
    }
    if constexpr (kFunction)
      with_kind(activation.kind, [&]<Activation::Kind kind>() {
        for (int k = 0; k < N; ++k) values.at[k] = activated<kind>(values.at[k], activation.slope);
      });
    if (relu)
      for (float& v : values.at) v = Relu{}(v);
    const auto stored = store<N>(y + i, values);
    if (positive) positive[i / N] = positive_of(stored);
  });
}

// gradients *= act'(normalize(x)).
template <int N>
__device__ void times_derivative(const Activation& activation, const BatchNormForward (&normalize)[N],
                                 const Pack<float, N>& x, Pack<float, N>& gradients) {
  with_kind(activation.kind, [&]<Activation::Kind kind>() {
    for (int k = 0; k < N; ++k) gradients.at[k] *= derivative_at<kind>(normalize[k](x.at[k]), activation.slope);
  });
}

// Sums the gradients as `dy` stores them, rounded, so that the dx of the backward pass sums to 0. Stores them only
// where they are sums, or where the skip path reads them.
template <class T, int N, bool kFunction>
__global__ void __launch_bounds__(kThreads, kSumBlocksAtOnce)
    backward_sum_kernel(const T* x, const uint8_t* positive, const T* more, T* dy, bool stores, ColumnPlan plan,
                        const float* saved, Affine affine, Activation activation, SumsOf<2> out) {
  await_previous_kernel();
  const ColumnPlace place(plan);
  Pack<float, N> means{}, sums[2] = {};
  if (place.active)
    for (int k = 0; k < N; ++k) means.at[k] = saved[place.column * N + k];
  BatchNormForward normalize[N] = {};
  if constexpr (kFunction)
    for (int k = 0; place.active && k < N; ++k) {
      const int c = place.column * N + k;
      normalize[k] = {means.at[k], (affine.scale ? affine.scale[c] : 1.0f) * saved[plan.packs * N + c],
                      affine.shift ? affine.shift[c] : 0.0f};
    }
  struct Item {
    Pack<T, N> x, more, dy;
    uint8_t positive;
  };
  const auto load_item = [&](int64_t i) {
    Item item;
    item.x = load_raw<N>(x + i);
    item.dy = load_raw<N>(dy + i);
    if (positive) item.positive = positive[i / N];
    if (more) item.more = load_raw<N>(more + i);
    return item;
  };
  each_row<N, 1>(plan, place, load_item, [&](int64_t i, const Item& item) {
    auto gradients = to_floats(item.dy);
    if (more) {
      const auto terms = to_floats(item.more);
      for (int k = 0; k < N; ++k) gradients.at[k] += terms.at[k];
    }
    if (positive) gradients = where(item.positive, gradients);
    const auto values = to_floats(item.x);
    if constexpr (kFunction) times_derivative(activation, normalize, values, gradients);
    if (stores) gradients = to_floats(store<N>(dy + i, gradients));
    for (int k = 0; k < N; ++k) {
      sums[0].at[k] += gradients.at[k];
      sums[1].at[k] += gradients.at[k] * (values.at[k] - means.at[k]);
    }
  });
  if (place.active)
    for (int k = 0; k < N; ++k) sums[1].at[k] *= saved[plan.packs * N + place.column * N + k];
  sum_columns(plan, place, sums, out);
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    backward_kernel(const T* x, const uint8_t* positive, const T* dy, T* dx, ColumnPlan plan, const float* saved,
                    const float* scale, const float* t1, const float* t2, float count) {
  await_previous_kernel();
  __shared__ BatchNormGradient per_channel[kTileChannels];
  const ColumnPlace place(plan);
  const int channels = plan.packs * N;
  each_channel<N>(plan, place, [&](int c, int in_tile) {
    const float inverse_deviation = saved[channels + c];
    per_channel[in_tile] = {saved[c], inverse_deviation * (t2[c] / count),
                            (scale ? scale[c] : 1.0f) * inverse_deviation, t1[c] / count, 1};
  });
  BatchNormGradient gradient[N] = {};
  if (place.active)
    for (int k = 0; k < N; ++k) {
      gradient[k] = per_channel[threadIdx.x % plan.width * N + k];
      gradient[k].mean_t2 = 1;  // inverse_deviation contains this factor, which saves one register per channel
    }
  struct Item {
    Pack<T, N> x, dy;
    uint8_t positive;
  };
  const auto load_item = [&](int64_t i) {
    return Item{load_raw<N>(x + i), load_raw<N>(dy + i), positive ? positive[i / N] : uint8_t{0xff}};
  };
  each_row<N, 2>(plan, place, load_item, [&](int64_t i, const Item& item) {
    const auto values = to_floats(item.x);
    auto gradients = where(item.positive, to_floats(item.dy));
    for (int k = 0; k < N; ++k) gradients.at[k] = gradient[k](values.at[k], gradients.at[k]);
    store<N>(dx + i, gradients);
  });
}

// The gradients of a forward pass with given statistics. `dx` may be null.
template <class T, int N, bool kFunction>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    scale_kernel(const T* x, const T* y, const T* more, T* dy, bool stores, T* dx, ColumnPlan plan, const float* mean,
                 const float* variance, Affine affine, Activation activation) {
  await_previous_kernel();
  __shared__ float per_channel[kTileChannels];
  const ColumnPlace place(plan);
  each_channel<N>(plan, place, [&](int c, int in_tile) {
    const float inverse_deviation = 1 / std::sqrt(variance[c] + affine.epsilon);
    per_channel[in_tile] = (affine.scale ? affine.scale[c] : 1.0f) * inverse_deviation;
  });
  float factors[N] = {};
  if (place.active)
    for (int k = 0; k < N; ++k) factors[k] = per_channel[threadIdx.x % plan.width * N + k];
  BatchNormForward normalize[N] = {};
  if constexpr (kFunction)
    for (int k = 0; place.active && k < N; ++k) {
      const int c = place.column * N + k;
      normalize[k] = {mean[c], factors[k], affine.shift ? affine.shift[c] : 0.0f};
    }
  struct Item {
    Pack<T, N> x, y, more, dy;
  };
  const auto load_item = [&](int64_t i) {
    Item item;
    item.dy = load_raw<N>(dy + i);
    if constexpr (kFunction) item.x = load_raw<N>(x + i);
    if (y) item.y = load_raw<N>(y + i);
    if (more) item.more = load_raw<N>(more + i);
    return item;
  };
  each_row<N, kFunction ? 1 : 2>(plan, place, load_item, [&](int64_t i, const Item& item) {
    auto gradients = to_floats(item.dy);
    if (more) {
      const auto terms = to_floats(item.more);
      for (int k = 0; k < N; ++k) gradients.at[k] += terms.at[k];
    }
    if (y) gradients = where(positive_of(item.y), gradients);
    if constexpr (kFunction) times_derivative(activation, normalize, to_floats(item.x), gradients);
    if (stores) gradients = to_floats(store<N>(dy + i, gradients));
    if (!dx) return;
    for (int k = 0; k < N; ++k) gradients.at[k] *= factors[k];
    store<N>(dx + i, gradients);
  });
}

class CudaBatchNorm final : public BatchNorm {
 public:
  CudaBatchNorm(CudaContext& context, const BatchNormDesc& desc, std::span<const int64_t> batch_sizes)
      : context_(context),
        desc_(desc),
        channels_(desc.input.c),
        pack_(pack_width(context.activations(), desc.input.c)),
        saved_(context.device, 2 * desc.input.c * sizeof(float)) {
    DDP_EXPECT(desc.format == Format{} && channels_ > 0);
    DDP_EXPECT(!desc.add || !function());
    for (const int64_t n : batch_sizes) {
      context.workspace.reserve(partials_bytes(plan(n, true)));
      max_batch_ = std::max(max_batch_, n);
    }
    if (relu() && desc.gradients) positive_ = Buffer(context.device, max_batch_ * desc.input.elements() / pack_);
  }

  void bind(const float* scale, const float* shift) override {
    scale_ = scale;
    shift_ = shift;
  }

  void sum(const Tensor& x, const float* center, float* sums) override {
    check(x);
    const ColumnPlan columns = plan_of_sums(x);
    with_packs(x.dtype, pack_, [&]<class T, int N>() {
      launch(context_.stream, columns.blocks(), kThreads, sum_kernel<T, N>, data<T>(x), center, columns,
             to(sums, sums + channels_));
    });
  }

  void begin_forward(const float* center, const float* sums, float count) override {
    forward_ = {center, sums, count, nullptr, nullptr};
  }

  void forward(const Tensor& x, const Tensor& skip, const Tensor& y) override {
    DDP_EXPECT(forward_.sums);
    normalize(x, skip, y, forward_, saved_.as<float>(), positive_.as<uint8_t>());
  }

  void evaluate(const Tensor& x, const Tensor& skip, const Tensor& y, const float* mean,
                const float* variance) override {
    normalize(x, skip, y, {nullptr, nullptr, 0, mean, variance}, nullptr, nullptr);
  }

  void evaluate_backward(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, const Tensor& dx,
                         const float* mean, const float* variance) override {
    check(dy);
    if (relu()) check(y);
    if (function()) check(x);
    if (more.data) check(more);
    if (dx.data) check(dx);
    const ColumnPlan columns = plan(dy.shape.n, false);
    with_packs(dy.dtype, pack_, [&]<class T, int N>() {
      launch(context_.stream, columns.blocks(), kThreads,
             function() ? scale_kernel<T, N, true> : scale_kernel<T, N, false>, data<T>(x),
             relu() ? data<T>(y) : nullptr, data<T>(more), data<T>(dy), more.data || desc_.add || !dx.data, data<T>(dx),
             columns, mean, variance, Affine{scale_, shift_, desc_.epsilon}, desc_.activation);
    });
  }

  void backward_sum(const Tensor& x, const Tensor&, const Tensor& more, const Tensor& dy, float* t1,
                    float* t2) override {
    check(x);
    check(dy);
    if (more.data) check(more);
    const ColumnPlan columns = plan_of_sums(x);
    with_packs(x.dtype, pack_, [&]<class T, int N>() {
      launch(context_.stream, columns.blocks(), kThreads,
             function() ? backward_sum_kernel<T, N, true> : backward_sum_kernel<T, N, false>, data<T>(x),
             positive_.as<uint8_t>(), data<T>(more), data<T>(dy), more.data || desc_.add || function(), columns,
             saved_.as<float>(), Affine{scale_, shift_, desc_.epsilon}, desc_.activation, to(t1, t2));
    });
  }

  void begin_backward(const float* t1, const float* t2, float count) override { backward_ = {t1, t2, count}; }

  void backward(const Tensor& x, const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(backward_.t1);
    check(x);
    check(dy);
    check(dx);
    const ColumnPlan columns = plan(x.shape.n, false);
    with_packs(x.dtype, pack_, [&]<class T, int N>() {
      launch(context_.stream, columns.blocks(), kThreads, backward_kernel<T, N>, data<T>(x), positive_.as<uint8_t>(),
             data<T>(dy), data<T>(dx), columns, saved_.as<float>(), scale_, backward_.t1, backward_.t2,
             backward_.count);
    });
  }

 private:
  bool relu() const { return desc_.activation.is_relu(); }
  bool function() const { return desc_.activation.reads_input(); }

  ColumnPlan plan(int64_t n, bool sums) const {
    return plan_of(n * desc_.input.h * desc_.input.w, channels_, context_.activations(), pack_, sums);
  }
  size_t partials_bytes(const ColumnPlan& columns) const { return columns.partials(channels_, 2) * sizeof(float); }
  SumsOf<2> to(float* first, float* second) const {
    return {{first, second}, false, static_cast<float*>(context_.workspace.data()), context_.counters()};
  }

  ColumnPlan plan_of_sums(const Tensor& x) const {
    const ColumnPlan columns = plan(x.shape.n, true);
    DDP_EXPECT(context_.workspace.bytes() >= partials_bytes(columns));
    return columns;
  }

  void normalize(const Tensor& x, const Tensor& skip, const Tensor& y, const Statistics& from, float* saved,
                 uint8_t* positive) {
    check(x);
    check(y);
    if (desc_.add) check(skip);
    const ColumnPlan columns = plan(x.shape.n, false);
    with_packs(x.dtype, pack_, [&]<class T, int N>() {
      launch(context_.stream, columns.blocks(), kThreads,
             function() ? forward_kernel<T, N, true> : forward_kernel<T, N, false>, data<T>(x),
             desc_.add ? data<T>(skip) : nullptr, data<T>(y), columns, from, Affine{scale_, shift_, desc_.epsilon},
             relu(), desc_.activation, saved, positive);
    });
  }

  void check(const Tensor& t) const {
    DDP_EXPECT(t.format == Format{} && t.dtype == context_.activations() && t.shape.image == desc_.input);
    DDP_EXPECT(t.data && aligned(t.data) && t.shape.n <= max_batch_);
  }

  CudaContext& context_;
  BatchNormDesc desc_;
  int64_t channels_;
  int pack_;
  int64_t max_batch_ = 0;  // samples
  Buffer saved_;           // from the last forward: [mean][1 / sqrt(var + epsilon)]
  Buffer positive_;        // from the last forward with a ReLU: positive_of() its outputs
  const float *scale_ = nullptr, *shift_ = nullptr;
  Statistics forward_{};
  struct {
    const float *t1, *t2;
    float count;
  } backward_{};
};

}  // namespace

std::unique_ptr<BatchNorm> CudaOps::batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CudaBatchNorm>(context_, desc, batch_sizes);
}

}  // namespace ddp
