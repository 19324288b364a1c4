#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"

#include <numeric>

namespace ddp {
namespace {

// Places of a range of channels in the rows of a tensor, in packs.
struct PackRange {
  int64_t first, row;  // `row`: length
};

template <class T, int N>
__global__ void copy_channels_kernel(const T* from, PackRange source, T* to, PackRange target, uint32_t width,
                                     uint32_t packs) {
  await_previous_kernel();
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t row = pack / width, k = pack % width;
    const auto values = load_raw<N>(from + (row * source.row + source.first + k) * N);
    *reinterpret_cast<Pack<T, N>*>(to + (row * target.row + target.first + k) * N) = values;
  }
}

template <class T, int N>
__global__ void set_channels_kernel(const float* values, T* y, PackRange target, uint32_t width, uint32_t packs) {
  await_previous_kernel();
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t row = pack / width, k = pack % width;
    Pack<float, N> set{};
    for (int j = 0; values && j < N; ++j) set.at[j] = values[k * N + j];
    store<N>(y + (row * target.row + target.first + k) * N, set);
  }
}

}  // namespace

void CudaOps::copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) {
  const ImageShape a = from.shape.image, b = to.shape.image;
  DDP_EXPECT(from.format == Format{} && to.format == Format{} && from.dtype == to.dtype);
  DDP_EXPECT(from.shape.n == to.shape.n && a.h == b.h && a.w == b.w);
  DDP_EXPECT(first >= 0 && to_first >= 0 && first + count <= a.c && to_first + count <= b.c);
  DDP_EXPECT(from.shape.elements() < INT32_MAX && to.shape.elements() < INT32_MAX);
  const int64_t places = std::gcd(std::gcd(count, std::gcd(first, to_first)), std::gcd(a.c, b.c));
  with_packs(from.dtype, aligned(from.data, to.data) ? pack_width(from.dtype, places) : 1, [&]<class T, int N>() {
    const int64_t width = count / N, packs = from.shape.elements() / a.c * width;
    launch(context_.stream, blocks_over(packs), kThreads, copy_channels_kernel<T, N>, data<T>(from),
           PackRange{first / N, a.c / N}, data<T>(to), PackRange{to_first / N, b.c / N}, width, packs);
  });
}

void CudaOps::set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) {
  const int64_t channels = y.shape.image.c;
  DDP_EXPECT(y.format == Format{} && first >= 0 && first + count <= channels);
  DDP_EXPECT(y.shape.elements() < INT32_MAX);
  const int64_t places = std::gcd(count, std::gcd(first, channels));
  with_packs(y.dtype, aligned(y.data) ? pack_width(y.dtype, places) : 1, [&]<class T, int N>() {
    const int64_t width = count / N, packs = y.shape.elements() / channels * width;
    launch(context_.stream, blocks_over(packs), kThreads, set_channels_kernel<T, N>, values, data<T>(y),
           PackRange{first / N, channels / N}, width, packs);
  });
}

}  // namespace ddp
