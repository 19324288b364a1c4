#include "core/error.h"
#include "ops/cuda/columns.cuh"
#include "ops/cuda/cuda_ops.h"
#include "ops/functors.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

struct Interval {
  int first, end;
};

// Windows along rows or columns: the inputs of a window, and the windows that contain an input.
struct Axis {
  int in, out, kernel, stride, padding;

  __device__ Interval window(int o) const {
    const int start = o * stride - padding;
    return {max(start, 0), min(start + kernel, in)};
  }
  __device__ Interval windows_over(int i) const {
    const int past = i + padding - kernel;  // the last start, with padding, of a window that ends before i
    return {past < 0 ? 0 : past / stride + 1, min((i + padding) / stride + 1, out)};
  }
  // For windows that do not overlap: the inputs from the start of this window to the start of the next. The cells cover
  // each input once.
  __device__ Interval cell(int o) const {
    return {o > 0 ? o * stride - padding : 0, o + 1 < out ? (o + 1) * stride - padding : in};
  }
};

// The same for an adaptive average.
struct AdaptiveAxis {
  int in, out;

  __device__ Interval window(int o) const { return {part(o, in, out), part_end(o, in, out)}; }
  __device__ Interval windows_over(int i) const { return {part(i, out, in), part_end(i, out, in)}; }
  __device__ float weight(int o) const {
    const Interval inputs = window(o);
    return 1 / static_cast<float>(inputs.end - inputs.first);
  }

 private:
  __device__ static int part(int64_t i, int from, int to) { return static_cast<int>(i * from / to); }
  __device__ static int part_end(int64_t i, int from, int to) {
    return static_cast<int>(((i + 1) * from + to - 1) / to);
  }
};

// A thread processes one pack of channels at a time. A position has `packs` packs.
template <class OneAxis>
struct PoolShapeOf {
  OneAxis rows, columns;
  int packs;
  float scale;

  __device__ int64_t input(int n, int h, int w, int pack) const {
    return ((static_cast<int64_t>(n) * rows.in + h) * columns.in + w) * packs + pack;
  }
  __device__ int64_t output(int n, int i, int j, int pack) const {
    return ((static_cast<int64_t>(n) * rows.out + i) * columns.out + j) * packs + pack;
  }
};
using PoolShape = PoolShapeOf<Axis>;
using AdaptiveShape = PoolShapeOf<AdaptiveAxis>;

// Calls body(n, i, j, pack) for all packs of n x h x w positions. `count` is the number of packs.
template <class Body>
__device__ void each_position(uint32_t count, uint32_t h, uint32_t w, uint32_t packs, const Body& body) {
  for (uint32_t item = grid_thread(); item < count; item += grid_threads()) {
    const uint32_t position = item / packs, row = position / w;
    body(static_cast<int>(row / h), static_cast<int>(row % h), static_cast<int>(position % w),
         static_cast<int>(item % packs));
  }
}

// K is the kernel size if it is known at compile time, which lets the loads overlap; else 0.
template <class T, int N, int K>
__global__ void average_kernel(const T* x, T* y, PoolShape s, uint32_t count) {
  await_previous_kernel();
  const int height = K ? K : s.rows.kernel, width = K ? K : s.columns.kernel;
  each_position(count, s.rows.out, s.columns.out, s.packs, [&](int n, int i, int j, int pack) {
    Pack<float, N> sum{};
    for (int p = 0; p < height; ++p)
      for (int q = 0; q < width; ++q) {
        const auto values = load<N>(x + s.input(n, i * s.rows.stride + p, j * s.columns.stride + q, pack) * N);
        for (int k = 0; k < N; ++k) sum.at[k] += values.at[k];
      }
    for (float& v : sum.at) v *= s.scale;
    store<N>(y + s.output(n, i, j, pack) * N, sum);
  });
}

template <class T, int N>
__global__ void adaptive_kernel(const T* x, T* y, AdaptiveShape s, uint32_t count) {
  await_previous_kernel();
  each_position(count, s.rows.out, s.columns.out, s.packs, [&](int n, int i, int j, int pack) {
    Pack<float, N> sum{};
    const Interval rows = s.rows.window(i), columns = s.columns.window(j);
    for (int h = rows.first; h < rows.end; ++h)
      for (int w = columns.first; w < columns.end; ++w) {
        const auto values = load<N>(x + s.input(n, h, w, pack) * N);
        for (int k = 0; k < N; ++k) sum.at[k] += values.at[k];
      }
    const float scale = 1 / static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
    for (float& v : sum.at) v *= scale;
    store<N>(y + s.output(n, i, j, pack) * N, sum);
  });
}

// The largest values of a window and their first positions in x. NaN counts as the largest.
template <int N>
struct Largest {
  Pack<float, N> values;
  int rows[N], columns[N];
};

template <int N, class T>
__device__ Largest<N> largest(const T* x, const PoolShape& s, int n, int i, int j, int pack) {
  const Interval rows = s.rows.window(i), columns = s.columns.window(j);
  Largest<N> found;
  for (int k = 0; k < N; ++k) {
    found.values.at[k] = -INFINITY;
    found.rows[k] = rows.first;
    found.columns[k] = columns.first;
  }
  for (int h = rows.first; h < rows.end; ++h)
    for (int w = columns.first; w < columns.end; ++w) {
      const auto values = load<N>(x + s.input(n, h, w, pack) * N);
      for (int k = 0; k < N; ++k) {
        const bool larger =
            values.at[k] > found.values.at[k] || (std::isnan(values.at[k]) && !std::isnan(found.values.at[k]));
        if (!larger) continue;
        found.values.at[k] = values.at[k];
        found.rows[k] = h;
        found.columns[k] = w;
      }
    }
  return found;
}

template <class T, int N>
__global__ void maximum_kernel(const T* x, T* y, PoolShape s, uint32_t count) {
  await_previous_kernel();
  each_position(count, s.rows.out, s.columns.out, s.packs, [&](int n, int i, int j, int pack) {
    store<N>(y + s.output(n, i, j, pack) * N, largest<N>(x, s, n, i, j, pack).values);
  });
}

// A backward pass and the gradients of the ReLU and the bias before the pool, if `applies`.
struct ReluGradients {
  bool applies;
  SumsOf<1> dbias;

  // The gradient in front of the ReLU, whose output is `x`.
  template <int N>
  __device__ Pack<float, N> before(const Pack<float, N>& x, Pack<float, N> gradients) const {
    if (applies)
      for (int k = 0; k < N; ++k) gradients.at[k] = ReluGradient{}(x.at[k], gradients.at[k]);
    return gradients;
  }
};

template <int N>
__device__ void add_to(Pack<float, N>& sum, const Pack<float, N>& values) {
  for (int k = 0; k < N; ++k) sum.at[k] += values.at[k];
}

// Calls body(n, i, j, pack, sum) for all packs of n x h x w positions, and adds up what the calls add to `sum`.
template <int N, class Body>
__device__ void each_gradient(const ColumnPlan& plan, uint32_t h, uint32_t w, const ReluGradients& relu,
                              const Body& body) {
  const ColumnPlace place(plan);
  Pack<float, N> sums[1] = {};
  const auto rows = static_cast<uint32_t>(place.active ? plan.rows : 0);
  for (uint32_t row = place.group * plan.thread_rows + place.thread_row; row < rows;
       row += plan.groups * plan.thread_rows)
    body(static_cast<int>(row / w / h), static_cast<int>(row / w % h), static_cast<int>(row % w), place.column,
         sums[0]);
  if (relu.dbias.at[0]) sum_columns(plan, place, sums, relu.dbias);
}

// Scatter kernels, for windows that do not overlap: each output writes its own cell.
template <class T, int N>
__global__ void spread_average_kernel(const T* x, const T* dy, T* dx, PoolShape s, ColumnPlan plan,
                                      ReluGradients relu) {
  await_previous_kernel();
  each_gradient<N>(plan, s.rows.out, s.columns.out, relu, [&](int n, int i, int j, int pack, Pack<float, N>& sum) {
    auto gradients = load<N>(dy + s.output(n, i, j, pack) * N);
    for (float& v : gradients.at) v *= s.scale;
    const Interval rows = s.rows.cell(i), columns = s.columns.cell(j);
    const Interval window_rows = s.rows.window(i), window_columns = s.columns.window(j);
    for (int h = rows.first; h < rows.end; ++h)
      for (int w = columns.first; w < columns.end; ++w) {
        const int64_t at = s.input(n, h, w, pack) * N;
        const bool covered = h < window_rows.end && w < window_columns.end;
        Pack<float, N> here{};
        if (covered) here = relu.applies ? relu.before(load<N>(x + at), gradients) : gradients;
        add_to(sum, here);
        store<N>(dx + at, here);
      }
  });
}

template <class T, int N>
__global__ void spread_maximum_kernel(const T* x, const T* dy, T* dx, PoolShape s, ColumnPlan plan,
                                      ReluGradients relu) {
  await_previous_kernel();
  each_gradient<N>(plan, s.rows.out, s.columns.out, relu, [&](int n, int i, int j, int pack, Pack<float, N>& sum) {
    const Largest<N> found = largest<N>(x, s, n, i, j, pack);
    const auto gradients = relu.before(found.values, load<N>(dy + s.output(n, i, j, pack) * N));
    add_to(sum, gradients);
    const Interval rows = s.rows.cell(i), columns = s.columns.cell(j);
    for (int h = rows.first; h < rows.end; ++h)
      for (int w = columns.first; w < columns.end; ++w) {
        Pack<float, N> here;
        for (int k = 0; k < N; ++k) here.at[k] = h == found.rows[k] && w == found.columns[k] ? gradients.at[k] : 0.0f;
        store<N>(dx + s.input(n, h, w, pack) * N, here);
      }
  });
}

// Gather kernels, for windows that overlap: each input reads the windows that contain it.
template <class T, int N>
__global__ void gather_average_kernel(const T* x, const T* dy, T* dx, PoolShape s, ColumnPlan plan,
                                      ReluGradients relu) {
  await_previous_kernel();
  each_gradient<N>(plan, s.rows.in, s.columns.in, relu, [&](int n, int h, int w, int pack, Pack<float, N>& sum) {
    Pack<float, N> here{};
    const Interval rows = s.rows.windows_over(h), columns = s.columns.windows_over(w);
    for (int i = rows.first; i < rows.end; ++i)
      for (int j = columns.first; j < columns.end; ++j) add_to(here, load<N>(dy + s.output(n, i, j, pack) * N));
    for (float& v : here.at) v *= s.scale;
    const int64_t at = s.input(n, h, w, pack) * N;
    if (relu.applies) here = relu.before(load<N>(x + at), here);
    add_to(sum, here);
    store<N>(dx + at, here);
  });
}

template <class T, int N>
__global__ void gather_adaptive_kernel(const T* x, const T* dy, T* dx, AdaptiveShape s, ColumnPlan plan,
                                       ReluGradients relu) {
  await_previous_kernel();
  each_gradient<N>(plan, s.rows.in, s.columns.in, relu, [&](int n, int h, int w, int pack, Pack<float, N>& sum) {
    Pack<float, N> here{};
    const Interval rows = s.rows.windows_over(h), columns = s.columns.windows_over(w);
    for (int i = rows.first; i < rows.end; ++i)
      for (int j = columns.first; j < columns.end; ++j) {
        const auto gradients = load<N>(dy + s.output(n, i, j, pack) * N);
        const float weight = s.rows.weight(i) * s.columns.weight(j);
        for (int k = 0; k < N; ++k) here.at[k] += gradients.at[k] * weight;
      }
    const int64_t at = s.input(n, h, w, pack) * N;
    if (relu.applies) here = relu.before(load<N>(x + at), here);
    add_to(sum, here);
    store<N>(dx + at, here);
  });
}

// Whether a value of a window equals the output of the window. The output is NaN if any value is NaN.
__device__ bool is_largest(float value, float output) { return value == output || std::isnan(value); }

// An input gets the gradients of the windows in which it is the first largest value.
template <class T, int N>
__global__ void gather_maximum_kernel(const T* x, const T* y, const T* dy, T* dx, PoolShape s, ColumnPlan plan,
                                      ReluGradients relu) {
  await_previous_kernel();
  each_gradient<N>(plan, s.rows.in, s.columns.in, relu, [&](int n, int h, int w, int pack, Pack<float, N>& sum) {
    const auto mine = load<N>(x + s.input(n, h, w, pack) * N);
    Pack<float, N> here{};
    const Interval over_rows = s.rows.windows_over(h), over_columns = s.columns.windows_over(w);
    for (int i = over_rows.first; i < over_rows.end; ++i)
      for (int j = over_columns.first; j < over_columns.end; ++j) {
        const int64_t at = s.output(n, i, j, pack) * N;
        const auto outputs = load<N>(y + at);
        bool first[N], any = false;
        for (int k = 0; k < N; ++k) {
          first[k] = is_largest(mine.at[k], outputs.at[k]);
          any = any || first[k];
        }
        const Interval rows = s.rows.window(i), columns = s.columns.window(j);
        for (int p = rows.first; any && p <= h; ++p)
          for (int q = columns.first; any && q < (p < h ? columns.end : w); ++q) {
            const auto earlier = load<N>(x + s.input(n, p, q, pack) * N);
            any = false;
            for (int k = 0; k < N; ++k) {
              first[k] = first[k] && !is_largest(earlier.at[k], outputs.at[k]);
              any = any || first[k];
            }
          }
        if (!any) continue;
        const auto gradients = load<N>(dy + at);
        for (int k = 0; k < N; ++k) here.at[k] += first[k] ? gradients.at[k] : 0.0f;
      }
    here = relu.before(mine, here);
    add_to(sum, here);
    store<N>(dx + s.input(n, h, w, pack) * N, here);
  });
}

class CudaPool2d final : public Pool2d {
 public:
  CudaPool2d(CudaContext& context, const Pool2dDesc& desc, std::span<const int64_t> batch_sizes)
      : context_(context), desc_(desc), out_(pool2d_output(desc)) {
    const Window2d& w = desc.window;
    DDP_EXPECT(desc.format == Format{} && out_.h > 0 && out_.w > 0);
    const bool windowed = !global() && !adaptive();
    DDP_EXPECT(!windowed || (w.kernel > 0 && w.stride > 0 && window_fits(desc.input, w)));
    DDP_EXPECT(maximum() || !windowed || w.padding.none());
    // Then each window contains at least one input.
    DDP_EXPECT(!windowed || std::max({w.padding.top, w.padding.left, w.padding.bottom, w.padding.right}) < w.kernel);
    if (batch_sizes.empty()) return;
    const int64_t positions = std::ranges::max(batch_sizes) * swept().h * swept().w;
    for (const DType type : {DType::f32, DType::bf16})
      for (const int width : {1, pack_width(type, desc.input.c)})
        context.workspace.reserve(plan(positions, width, true).partials(desc.input.c, 1) * sizeof(float));
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    if (adaptive()) {
      const int width = aligned(x.data, y.data) ? pack_width(x.dtype, desc_.input.c) : 1;
      return with_packs(x.dtype, width, [&]<class T, int N>() {
        start<N>(y, adaptive_kernel<T, N>, data<T>(x), data<T>(y), adaptive_shape(width));
      });
    }
    each_width(aligned(x.data, y.data), x.dtype, [&]<class T, int N>(const PoolShape& shape) {
      const bool by_two = desc_.window.kernel == 2 && !global();
      const auto kernel = maximum() ? maximum_kernel<T, N> : by_two ? average_kernel<T, N, 2> : average_kernel<T, N, 0>;
      start<N>(y, kernel, data<T>(x), data<T>(y), shape);
    });
  }

  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx, const ReluBefore& relu) override {
    check(dx, dy);
    if (maximum()) check(x, y);
    if (relu.applies) check(x, dy);
    const bool wide = aligned(dx.data, dy.data, x.data, y.data);
    each_width(wide, dx.dtype, [&]<class T, int N>(const PoolShape& shape) {
      const T *in = data<T>(x), *out = data<T>(y), *gradients = data<T>(dy);
      T* const result = data<T>(dx);
      const ColumnPlan p = plan(dx.shape.n * swept().h * swept().w, N, relu.dbias != nullptr);
      DDP_EXPECT(!relu.dbias || context_.workspace.bytes() >= p.partials(desc_.input.c, 1) * sizeof(float));
      const ReluGradients before{relu.applies,
                                 {{relu.dbias},
                                  relu.mode == Gradient::add,
                                  static_cast<float*>(context_.workspace.data()),
                                  context_.counters()}};
      const auto start = [&](auto* kernel, const auto*... read) {
        launch(context_.stream, p.blocks(), kThreads, kernel, read..., result, shape, p, before);
      };
      if (adaptive())
        launch(context_.stream, p.blocks(), kThreads, gather_adaptive_kernel<T, N>, in, gradients, result,
               adaptive_shape(N), p, before);
      else if (!maximum())
        start(overlap() ? gather_average_kernel<T, N> : spread_average_kernel<T, N>, in, gradients);
      else if (overlap())
        start(gather_maximum_kernel<T, N>, in, out, gradients);
      else
        start(spread_maximum_kernel<T, N>, in, gradients);
    });
  }

 private:
  bool maximum() const { return desc_.kind == Pool2dDesc::Kind::maximum; }
  bool global() const { return desc_.kind == Pool2dDesc::Kind::global_average; }
  bool adaptive() const { return desc_.kind == Pool2dDesc::Kind::adaptive_average; }
  bool overlap() const { return !global() && desc_.window.kernel > desc_.window.stride; }
  const ImageShape& swept() const {
    return adaptive() || overlap() ? desc_.input : out_;
  }  // the positions of a backward pass

  AdaptiveShape adaptive_shape(int width) const {
    const ImageShape& in = desc_.input;
    return {{static_cast<int>(in.h), static_cast<int>(out_.h)},
            {static_cast<int>(in.w), static_cast<int>(out_.w)},
            static_cast<int>(in.c / width),
            0};
  }

  // Without sums there are no groups to add, so more blocks share the work.
  ColumnPlan plan(int64_t positions, int width, bool sums) const {
    ColumnPlan plan = plan_columns(positions, desc_.input.c / width, kMaxTileWidth, kFewRows);
    if (!sums)
      plan.groups = static_cast<int>(std::clamp<int64_t>(positions / plan.thread_rows, 1, kMaxBlocks / plan.tiles));
    return plan;
  }

  template <int N, class Kernel, class... Arguments>
  void start(const Tensor& mine, Kernel* kernel, const Arguments&... arguments) {
    const int64_t packs = mine.shape.elements() / N;
    launch(context_.stream, blocks_over(packs), kThreads, kernel, arguments..., packs);
  }

  template <class F>
  void each_width(bool wide, DType type, F&& f) {
    const auto axis = [&](int64_t in, int64_t out, int64_t padding) {
      const Window2d& w = desc_.window;
      const int64_t kernel = global() ? in : w.kernel, stride = global() ? in : w.stride;
      return Axis{static_cast<int>(in), static_cast<int>(out), static_cast<int>(kernel), static_cast<int>(stride),
                  static_cast<int>(global() ? 0 : padding)};
    };
    const ImageShape& in = desc_.input;
    const int width = wide ? pack_width(type, in.c) : 1;
    PoolShape shape{axis(in.h, out_.h, desc_.window.padding.top), axis(in.w, out_.w, desc_.window.padding.left),
                    static_cast<int>(in.c / width), 0};
    shape.scale = 1.0f / static_cast<float>(shape.rows.kernel * shape.columns.kernel);
    with_packs(type, width, [&]<class T, int N>() { f.template operator()<T, N>(shape); });
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.elements() < INT32_MAX && y.shape.elements() < INT32_MAX);
  }

  CudaContext& context_;
  Pool2dDesc desc_;
  ImageShape out_;
};

}  // namespace

std::unique_ptr<Pool2d> CudaOps::pool2d(const Pool2dDesc& desc, std::span<const int64_t> batch_sizes) {
  return std::make_unique<CudaPool2d>(context_, desc, batch_sizes);
}

}  // namespace ddp
