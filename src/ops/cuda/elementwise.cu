#include "core/error.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/pack.cuh"
#include "ops/functors.h"

#include <numeric>

namespace ddp {
namespace {

template <class T, int W>
__global__ void relu_kernel(const T* x, T* y, int64_t count) {
  each_pack<W>(count, [&]<int N>(int64_t i) {
    auto values = load<N>(x + i);
    for (float& v : values.at) v = Relu{}(v);
    store<N>(y + i, values);
  });
}

template <class T, int W>
__global__ void relu_backward_kernel(const T* y, const T* dy, T* dx, int64_t count) {
  each_pack<W>(count, [&]<int N>(int64_t i) {
    const auto outputs = load<N>(y + i);
    auto gradients = load<N>(dy + i);
    for (int k = 0; k < N; ++k) gradients.at[k] = ReluGradient{}(outputs.at[k], gradients.at[k]);
    store<N>(dx + i, gradients);
  });
}

template <class From, class To, int W>
__global__ void convert_kernel(const From* from, To* to, int64_t count) {
  each_pack<W>(count, [&]<int N>(int64_t i) { store<N>(to + i, load<N>(from + i)); });
}

template <class A, class B, class Y, int W>
__global__ void add_kernel(const A* a, const B* b, Y* y, int64_t count) {
  each_pack<W>(count, [&]<int N>(int64_t i) {
    const auto terms = load<N>(b + i);
    auto sums = load<N>(a + i);
    for (int k = 0; k < N; ++k) sums.at[k] += terms.at[k];
    store<N>(y + i, sums);
  });
}

template <int W>
__global__ void flag_nonfinite_kernel(const uint32_t* bits, int64_t count, float mark, float* flag) {
  bool any = false;
  each_pack<W>(count, [&]<int N>(int64_t i) {
    for (const uint32_t value : load_raw<N>(bits + i).at) any |= IsNonfinite{}(value);
  });
  if (any && *flag == 0) *flag = mark;
}

// The part of an image that is read. Lengths are in bytes.
struct Crop {
  uint32_t row, features;  // of a row of the part; of the whole part
  uint32_t image_row;
  int64_t image;
};

template <class T, int N>
__global__ void normalize_kernel(const uint8_t* pixels, const int32_t* ids, Crop crop, uint32_t packs, T* x) {
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t sample = pack / (crop.features / N), feature = pack % (crop.features / N) * N;
    const int64_t image = ids ? ids[sample] : static_cast<int64_t>(sample);
    const uint32_t offset = feature / crop.row * crop.image_row + feature % crop.row;
    const auto bytes = load_raw<N>(pixels + image * crop.image + offset);
    Pack<float, N> values;
    for (int k = 0; k < N; ++k) values.at[k] = Normalize{}(bytes.at[k]);
    store<N>(x + static_cast<int64_t>(pack) * N, values);
  }
}

template <int W, class From, class To>
void convert_or_add(CudaContext& context, const From* from, To* to, int64_t count, Gradient mode) {
  const auto start = [&]<int N>() {
    const int64_t blocks = blocks_over(count / N + 1);
    if (mode == Gradient::add)
      launch(context.stream, blocks, kThreads, add_kernel<To, From, To, N>, to, from, to, count);
    else
      launch(context.stream, blocks, kThreads, convert_kernel<From, To, N>, from, to, count);
  };
  aligned(from, to) ? start.template operator()<W>() : start.template operator()<1>();
}

}  // namespace

void normalize(CudaContext& context, const DeviceBatch& batch, const ImageShape& image, const Tensor& x) {
  const ImageShape& part = x.shape.image;
  DDP_EXPECT(x.format == Format{} && x.shape.n == batch.size);
  DDP_EXPECT(part.h <= image.h && part.w <= image.w && part.c == image.c);
  DDP_EXPECT(x.shape.elements() < INT32_MAX && image.elements() < INT32_MAX);
  const bool whole_rows = part.w == image.w;  // the part is then one run of bytes
  const int64_t row = whole_rows ? part.elements() : part.w * part.c;
  const int64_t image_row = whole_rows ? image.elements() : image.w * image.c;
  const Crop crop{static_cast<uint32_t>(row), static_cast<uint32_t>(part.elements()), static_cast<uint32_t>(image_row),
                  image.elements()};
  const bool wide = aligned(batch.images, x.data);
  const int width = wide ? pack_width(x.dtype, std::gcd(row, std::gcd(image_row, image.elements()))) : 1;
  with_packs(x.dtype, width, [&]<class T, int N>() {
    const int64_t packs = x.shape.elements() / N;
    launch(context.stream, blocks_over(packs), kThreads, normalize_kernel<T, N>, batch.images, batch.ids, crop, packs,
           data<T>(x));
  });
}

void relu(CudaContext& context, const Tensor& x, const Tensor& y) {
  DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype && x.shape == y.shape);
  const int64_t count = x.shape.elements();
  with_packs(x.dtype, width_of(x.dtype, aligned(x.data, y.data)), [&]<class T, int N>() {
    launch(context.stream, blocks_over(count / N + 1), kThreads, relu_kernel<T, N>, data<T>(x), data<T>(y), count);
  });
}

void relu_backward(CudaContext& context, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  DDP_EXPECT(y.format == Format{} && dy.format == Format{} && dx.format == Format{});
  DDP_EXPECT(y.dtype == dy.dtype && y.dtype == dx.dtype && y.shape == dy.shape && y.shape == dx.shape);
  const int64_t count = y.shape.elements();
  with_packs(y.dtype, width_of(y.dtype, aligned(y.data, dy.data, dx.data)), [&]<class T, int N>() {
    launch(context.stream, blocks_over(count / N + 1), kThreads, relu_backward_kernel<T, N>, data<T>(y), data<T>(dy),
           data<T>(dx), count);
  });
}

void add(CudaContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
  DDP_EXPECT(a.format == Format{} && b.format == Format{} && y.format == Format{});
  DDP_EXPECT(a.dtype == b.dtype && a.dtype == y.dtype && a.shape == b.shape && a.shape == y.shape);
  const int64_t count = a.shape.elements();
  with_packs(a.dtype, width_of(a.dtype, aligned(a.data, b.data, y.data)), [&]<class T, int N>() {
    launch(context.stream, blocks_over(count / N + 1), kThreads, add_kernel<T, T, T, N>, data<T>(a), data<T>(b),
           data<T>(y), count);
  });
}

void flag_nonfinite(CudaContext& context, const float* values, int64_t count, float mark, float* flag) {
  const auto start = [&]<int N>() {
    launch(context.stream, blocks_over(count / N + 1), kThreads, flag_nonfinite_kernel<N>,
           reinterpret_cast<const uint32_t*>(values), count, mark, flag);
  };
  aligned(values) ? start.operator()<4>() : start.operator()<1>();
}

void copy_or_add(CudaContext& context, const float* from, float* to, int64_t count, Gradient mode) {
  convert_or_add<4>(context, from, to, count, mode);
}

void to_bf16(CudaContext& context, const float* from, void* to, int64_t count) {
  convert_or_add<8>(context, from, static_cast<Bf16*>(to), count, Gradient::overwrite);
}

void from_bf16(CudaContext& context, const void* from, float* to, int64_t count, Gradient mode) {
  convert_or_add<8>(context, static_cast<const Bf16*>(from), to, count, mode);
}

}  // namespace ddp
