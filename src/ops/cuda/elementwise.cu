#include "core/error.h"
#include "ops/augmented_image.h"
#include "ops/cuda/columns.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

#include <numeric>

namespace ddp {
namespace {

template <class T, int W>
__global__ void relu_kernel(const T* x, T* y, int64_t count) {
  await_previous_kernel();
  each_pack<W>(count, [&]<int N>(int64_t i) {
    auto values = load<N>(x + i);
    for (float& v : values.at) v = Relu{}(v);
    store<N>(y + i, values);
  });
}

template <class T, int W>
__global__ void relu_backward_kernel(const T* y, const T* dy, T* dx, int64_t count) {
  await_previous_kernel();
  each_pack<W>(count, [&]<int N>(int64_t i) {
    const auto outputs = load<N>(y + i);
    auto gradients = load<N>(dy + i);
    for (int k = 0; k < N; ++k) gradients.at[k] = ReluGradient{}(outputs.at[k], gradients.at[k]);
    store<N>(dx + i, gradients);
  });
}

template <class From, class To, int W>
__global__ void convert_kernel(const From* from, To* to, int64_t count) {
  await_previous_kernel();
  each_pack<W>(count, [&]<int N>(int64_t i) { store<N>(to + i, load<N>(from + i)); });
}

template <int W>
__global__ void lerp_kernel(const float* from, float* to, int64_t count, Lerp lerp, const float* skip, int skips) {
  await_previous_kernel();
  if (any_set(skip, skips)) return;
  each_pack<W>(count, [&]<int N>(int64_t i) {
    const auto values = load<N>(from + i);
    auto averages = load<N>(to + i);
    for (int k = 0; k < N; ++k) averages.at[k] = lerp(averages.at[k], values.at[k]);
    store<N>(to + i, averages);
  });
}

template <class A, class B, class Y, int W>
__global__ void add_kernel(const A* a, const B* b, Y* y, int64_t count) {
  await_previous_kernel();
  each_pack<W>(count, [&]<int N>(int64_t i) {
    const auto terms = load<N>(b + i);
    auto sums = load<N>(a + i);
    for (int k = 0; k < N; ++k) sums.at[k] += terms.at[k];
    store<N>(y + i, sums);
  });
}

// The part of an image that is read. Lengths are in bytes.
struct Crop {
  uint32_t row, features;  // of a row of the part; of the whole part
  uint32_t image_row;
  int64_t image;
};

// Of the part of an image that is read, and of the image.
struct Extents {
  uint32_t h, w, image_h, image_w, channels;
};

template <class T, int N>
__global__ void normalize_kernel(const uint8_t* pixels, const int32_t* ids, Crop crop, PixelScale scale,
                                 uint32_t channels, uint32_t packs, T* x) {
  await_previous_kernel();
  for (uint32_t pack = grid_thread(); pack < packs; pack += grid_threads()) {
    const uint32_t sample = pack / (crop.features / N), feature = pack % (crop.features / N) * N;
    const int64_t image = ids ? ids[sample] : static_cast<int64_t>(sample);
    const uint32_t offset = feature / crop.row * crop.image_row + feature % crop.row;
    const auto bytes = load_raw<N>(pixels + image * crop.image + offset);
    Pack<float, N> values;
    uint32_t channel = feature % channels;
    for (int k = 0; k < N; ++k) {
      values.at[k] = Normalize(scale, channel)(bytes.at[k]);
      if (++channel == channels) channel = 0;
    }
    store<N>(x + static_cast<int64_t>(pack) * N, values);
  }
}

// A thread writes all channels of a pixel.
template <class T>
__global__ void augment_kernel(const uint8_t* images, const int32_t* ids, const int32_t* keys, Extents extents,
                               Augmentation augmentation, PixelScale scale, uint32_t pixels, T* x) {
  await_previous_kernel();
  const uint32_t epoch = augmentation.epoch ? *augmentation.epoch : 0;
  const auto [h, w, image_h, image_w, channels] = extents;
  for (uint32_t pixel = grid_thread(); pixel < pixels; pixel += grid_threads()) {
    const uint32_t sample = pixel / (h * w), i = pixel % (h * w) / w, j = pixel % w;
    const int64_t image = ids ? ids[sample] : static_cast<int64_t>(sample);
    const AugmentedImage augmented(augmentation, epoch, keys[sample], image_h, image_w);
    const int64_t row = augmented.row(i), column = augmented.column(j);
    const bool padding = row < 0 || column < 0, erased = augmented.erased().contains(i, j);
    const int64_t from = ((image * image_h + row) * image_w + column) * channels;
    for (uint32_t c = 0; c < channels; ++c) {
      const float value = Normalize(scale, c)(padding ? uint8_t{0} : images[from + c]);
      store<1>(x + static_cast<int64_t>(pixel) * channels + c, Pack<float, 1>{{erased ? 0 : value}});
    }
  }
}

// The last block adds the sums of all blocks, in a fixed order.
__device__ void add_blocks(const Sums<1>& mine, const SumsOf<1>& to) {
  if (threadIdx.x == 0) __stcg(to.partials + blockIdx.x, mine.at[0]);
  if (!last_block(to.counters, gridDim.x)) return;
  Sums<1> parts{};
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) parts.at[0] += __ldcg(to.partials + i);
  const Sums<1> all = sum_over_block(parts);
  if (threadIdx.x == 0) *to.at[0] = (to.add ? *to.at[0] : 0.0f) + all.at[0];
}

// The share of each block depends on the count only.
template <int W>
__global__ void squares_kernel(const float* values, int64_t count, SumsOf<1> squares) {
  await_previous_kernel();
  Sums<1> mine{};
  each_pack<W>(count, [&]<int N>(int64_t i) {
    for (const float v : load_raw<N>(values + i).at) mine.at[0] += v * v;
  });
  add_blocks(sum_over_block(mine), squares);
}

template <int W>
__global__ void scan_kernel(const uint32_t* bits, int64_t count, float mark, float* flag) {
  await_previous_kernel();
  bool any = false;
  each_pack<W>(count, [&]<int N>(int64_t i) {
    for (const uint32_t value : load_raw<N>(bits + i).at) any |= IsNonfinite{}(value);
  });
  if (any && *flag == 0) *flag = mark;
}

__global__ void clip_scale_kernel(const float* sum, float limit, float* scale) {
  await_previous_kernel();
  *scale = ClipScale{limit}(*sum, *scale);
}

__global__ void correct_for_excluded_kernel(const float* seen, float mark, float* scale, float* flag) {
  await_previous_kernel();
  *scale = SeenScale{}(*scale, *seen);
  if (*seen == 0 && *flag == 0) *flag = mark;
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

SumsOf<1> sum_to(const CudaContext& context, int64_t blocks, float* at, bool add) {
  DDP_EXPECT(context.workspace.bytes() >= blocks * sizeof(float));
  return {{at}, add, static_cast<float*>(context.workspace.data()), context.counters()};
}

}  // namespace

void CudaOps::normalize(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                        const Augmentation& augmentation, const Tensor& x) {
  const ImageShape& part = x.shape.image;
  DDP_EXPECT(x.format == Format{} && x.shape.n == batch.size);
  DDP_EXPECT(part.h <= image.h && part.w <= image.w && part.c == image.c);
  DDP_EXPECT(x.shape.elements() < INT32_MAX && image.elements() < INT32_MAX);
  DDP_EXPECT(augmentation.fits(image) && (batch.keys || !augmentation.any()));
  DDP_EXPECT(image.c <= 3 || scale.uniform(image.c));
  if (batch.mix) return normalize_mixed(context_, batch, image, scale, augmentation, x);
  if (augmentation.any()) {
    const Extents extents{static_cast<uint32_t>(part.h), static_cast<uint32_t>(part.w), static_cast<uint32_t>(image.h),
                          static_cast<uint32_t>(image.w), static_cast<uint32_t>(image.c)};
    const int64_t pixels = x.shape.n * part.h * part.w;
    return with_packs(x.dtype, 1, [&]<class T, int>() {
      launch(context_.stream, blocks_over(pixels), kThreads, augment_kernel<T>, batch.samples, batch.ids, batch.keys,
             extents, augmentation, scale, pixels, data<T>(x));
    });
  }
  const bool whole_rows = part.w == image.w;  // the part is then one run of bytes
  const int64_t row = whole_rows ? part.elements() : part.w * part.c;
  const int64_t image_row = whole_rows ? image.elements() : image.w * image.c;
  const Crop crop{static_cast<uint32_t>(row), static_cast<uint32_t>(part.elements()), static_cast<uint32_t>(image_row),
                  image.elements()};
  const bool wide = aligned(batch.samples, x.data);
  const int width = wide ? pack_width(x.dtype, std::gcd(row, std::gcd(image_row, image.elements()))) : 1;
  with_packs(x.dtype, width, [&]<class T, int N>() {
    const int64_t packs = x.shape.elements() / N;
    launch(context_.stream, blocks_over(packs), kThreads, normalize_kernel<T, N>, batch.samples, batch.ids, crop, scale,
           scale.uniform(image.c) ? 1 : image.c, packs, data<T>(x));
  });
}

void CudaOps::relu(const Tensor& x, const Tensor& y) {
  DDP_EXPECT(x.format == Format{} && y.format == Format{} && x.dtype == y.dtype && x.shape == y.shape);
  const int64_t count = x.shape.elements();
  with_packs(x.dtype, width_of(x.dtype, aligned(x.data, y.data)), [&]<class T, int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, relu_kernel<T, N>, data<T>(x), data<T>(y), count);
  });
}

void CudaOps::relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) {
  DDP_EXPECT(y.format == Format{} && dy.format == Format{} && dx.format == Format{});
  DDP_EXPECT(y.dtype == dy.dtype && y.dtype == dx.dtype && y.shape == dy.shape && y.shape == dx.shape);
  const int64_t count = y.shape.elements();
  with_packs(y.dtype, width_of(y.dtype, aligned(y.data, dy.data, dx.data)), [&]<class T, int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, relu_backward_kernel<T, N>, data<T>(y), data<T>(dy),
           data<T>(dx), count);
  });
}

void CudaOps::add(const Tensor& a, const Tensor& b, const Tensor& y) {
  DDP_EXPECT(a.format == Format{} && b.format == Format{} && y.format == Format{});
  DDP_EXPECT(a.dtype == b.dtype && a.dtype == y.dtype && a.shape == b.shape && a.shape == y.shape);
  const int64_t count = a.shape.elements();
  with_packs(a.dtype, width_of(a.dtype, aligned(a.data, b.data, y.data)), [&]<class T, int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, add_kernel<T, T, T, N>, data<T>(a), data<T>(b),
           data<T>(y), count);
  });
}

void CudaOps::flag_nonfinite(const float* values, int64_t count, float mark, float* flag) {
  const bool wide = aligned(values);
  launch(context_.stream, blocks_over(count / (wide ? 4 : 1) + 1), kThreads, wide ? scan_kernel<4> : scan_kernel<1>,
         reinterpret_cast<const uint32_t*>(values), count, mark, flag);
}

void CudaOps::copy_or_add(const float* from, float* to, int64_t count, Gradient mode) {
  convert_or_add<4>(context_, from, to, count, mode);
}

void CudaOps::lerp(const float* from, float* to, int64_t count, float rate, std::span<const float> skip) {
  const auto start = [&]<int N>() {
    launch(context_.stream, blocks_over(count / N + 1), kThreads, lerp_kernel<N>, from, to, count, Lerp{rate},
           skip.data(), skip.size());
  };
  aligned(from, to) ? start.operator()<4>() : start.operator()<1>();
}

void to_bf16(CudaContext& context, const float* from, void* to, int64_t count) {
  convert_or_add<8>(context, from, static_cast<Bf16*>(to), count, Gradient::overwrite);
}

void from_bf16(CudaContext& context, const void* from, float* to, int64_t count, Gradient mode) {
  convert_or_add<8>(context, static_cast<const Bf16*>(from), to, count, mode);
}

void CudaOps::to_bf16(const float* from, void* to, int64_t count) { ddp::to_bf16(context_, from, to, count); }

void CudaOps::from_bf16(const void* from, float* to, int64_t count) {
  ddp::from_bf16(context_, from, to, count, Gradient::overwrite);
}

void reserve_sum_of_squares(CudaContext& context) { context.workspace.reserve(kMaxBlocks * sizeof(float)); }

void CudaOps::sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) {
  const auto start = [&]<int N>() {
    const int64_t blocks = blocks_over(count / N + 1);
    launch(context_.stream, blocks, kThreads, squares_kernel<N>, values, count,
           sum_to(context_, blocks, sum, mode == Gradient::add));
  };
  aligned(values) ? start.operator()<4>() : start.operator()<1>();
}

void CudaOps::clip_scale(const float* sum, float limit, float* scale) {
  launch(context_.stream, 1, 1, clip_scale_kernel, sum, limit, scale);
}

void CudaOps::correct_for_excluded(const float* seen, float mark, float* scale, float* flag) {
  launch(context_.stream, 1, 1, correct_for_excluded_kernel, seen, mark, scale, flag);
}

}  // namespace ddp
