#include "core/error.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/pool2d.h"

namespace ddp {
namespace {

// Lengths in positions, but for `packs`: those of a position. Each thread has one pack of channels.
struct PoolShape {
  uint32_t h, w, out_h, out_w, packs, kernel, stride;
  float scale;

  __device__ int64_t input(uint32_t n, uint32_t i, uint32_t j, uint32_t pack) const {
    return ((static_cast<int64_t>(n) * h + i) * w + j) * packs + pack;
  }
  __device__ int64_t output(uint32_t n, uint32_t i, uint32_t j, uint32_t pack) const {
    return ((static_cast<int64_t>(n) * out_h + i) * out_w + j) * packs + pack;
  }
};

// body(n, i, j, pack) for all packs of n x h x w positions, of which there are `count`.
template <class Body>
__device__ void each_position(uint32_t count, uint32_t h, uint32_t w, uint32_t packs, const Body& body) {
  for (uint32_t item = grid_thread(); item < count; item += grid_threads()) {
    const uint32_t position = item / packs, row = position / w;
    body(row / h, row % h, position % w, item % packs);
  }
}

// K: the kernel where it is known when compiling, so that its loads are issued together; else 0.
template <class T, int N, uint32_t K>
__global__ void pool_kernel(const T* x, T* y, PoolShape s, uint32_t count) {
  const uint32_t kernel = K ? K : s.kernel;
  each_position(count, s.out_h, s.out_w, s.packs, [&](uint32_t n, uint32_t i, uint32_t j, uint32_t pack) {
    Pack<float, N> sum{};
    for (uint32_t p = 0; p < kernel; ++p)
      for (uint32_t q = 0; q < kernel; ++q) {
        const auto values = load<N>(x + s.input(n, i * s.stride + p, j * s.stride + q, pack) * N);
        for (int k = 0; k < N; ++k) sum.at[k] += values.at[k];
      }
    for (float& v : sum.at) v *= s.scale;
    store<N>(y + s.output(n, i, j, pack) * N, sum);
  });
}

// Where windows do not overlap, each output writes its own stride x stride cell; the last ones write up to the edge.
template <class T, int N>
__global__ void spread_kernel(const T* dy, T* dx, PoolShape s, uint32_t count) {
  each_position(count, s.out_h, s.out_w, s.packs, [&](uint32_t n, uint32_t i, uint32_t j, uint32_t pack) {
    auto gradients = load<N>(dy + s.output(n, i, j, pack) * N);
    for (float& v : gradients.at) v *= s.scale;
    const uint32_t rows = i + 1 < s.out_h ? s.stride : s.h - i * s.stride;
    const uint32_t columns = j + 1 < s.out_w ? s.stride : s.w - j * s.stride;
    for (uint32_t p = 0; p < rows; ++p)
      for (uint32_t q = 0; q < columns; ++q) {
        const bool covered = p < s.kernel && q < s.kernel;
        Pack<float, N> shares;
        for (int k = 0; k < N; ++k) shares.at[k] = covered ? gradients.at[k] : 0.0f;
        store<N>(dx + s.input(n, i * s.stride + p, j * s.stride + q, pack) * N, shares);
      }
  });
}

// Where they do, each input gathers from the windows that hold it.
template <class T, int N>
__global__ void gather_kernel(const T* dy, T* dx, PoolShape s, uint32_t count) {
  const auto first = [&](uint32_t at) { return at < s.kernel ? 0 : (at - s.kernel) / s.stride + 1; };
  const auto end = [&](uint32_t at, uint32_t out) { return min(at / s.stride + 1, out); };
  each_position(count, s.h, s.w, s.packs, [&](uint32_t n, uint32_t h, uint32_t w, uint32_t pack) {
    Pack<float, N> sum{};
    for (uint32_t i = first(h); i < end(h, s.out_h); ++i)
      for (uint32_t j = first(w); j < end(w, s.out_w); ++j) {
        const auto gradients = load<N>(dy + s.output(n, i, j, pack) * N);
        for (int k = 0; k < N; ++k) sum.at[k] += gradients.at[k];
      }
    for (float& v : sum.at) v *= s.scale;
    store<N>(dx + s.input(n, h, w, pack) * N, sum);
  });
}

class CudaAvgPool2d final : public AvgPool2d {
 public:
  CudaAvgPool2d(CudaContext& context, const AvgPool2dDesc& desc)
      : context_(context), desc_(desc), out_(avg_pool2d_output(desc)) {
    DDP_EXPECT(desc.format == Format{});
    DDP_EXPECT(desc.kernel > 0 && desc.stride > 0 && out_.h > 0 && out_.w > 0);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y);
    each_width(x, y, [&]<class T, int N>(const PoolShape& shape) {
      start(desc_.kernel == 2 ? pool_kernel<T, N, 2> : pool_kernel<T, N, 0>, x, y, shape, y.shape.elements() / N);
    });
  }

  void backward(const Tensor& dy, const Tensor& dx) override {
    check(dx, dy);
    const bool overlap = desc_.kernel > desc_.stride;
    each_width(dx, dy, [&]<class T, int N>(const PoolShape& shape) {
      start(overlap ? gather_kernel<T, N> : spread_kernel<T, N>, dy, dx, shape,
            (overlap ? dx : dy).shape.elements() / N);
    });
  }

 private:
  template <class T>
  void start(void (*kernel)(const T*, T*, PoolShape, uint32_t), const Tensor& from, const Tensor& to,
             const PoolShape& shape, int64_t count) {
    launch(context_.stream, blocks_over(count), kThreads, kernel, static_cast<const T*>(from.data),
           static_cast<T*>(to.data), shape, count);
  }

  template <class F>
  void each_width(const Tensor& x, const Tensor& y, F&& f) {
    const int width = aligned(x.data, y.data) ? pack_width(x.dtype, out_.c) : 1;
    const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
    const PoolShape shape{u32(desc_.input.h),  u32(desc_.input.w),
                          u32(out_.h),         u32(out_.w),
                          u32(out_.c / width), u32(desc_.kernel),
                          u32(desc_.stride),   1.0f / static_cast<float>(desc_.kernel * desc_.kernel)};
    with_packs(x.dtype, width, [&]<class T, int N>() { f.template operator()<T, N>(shape); });
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.elements() < INT32_MAX && y.shape.elements() < INT32_MAX);
  }

  CudaContext& context_;
  AvgPool2dDesc desc_;
  ImageShape out_;
};

}  // namespace

std::unique_ptr<AvgPool2d> make_avg_pool2d(CudaContext& context, const AvgPool2dDesc& desc) {
  return std::make_unique<CudaAvgPool2d>(context, desc);
}

}  // namespace ddp
