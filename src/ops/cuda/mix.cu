#include "ops/augmented_image.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/pack.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

// What normalize_mixed() reads, without the batch's size.
struct MixedInput {
  const uint8_t* images;
  const int32_t *labels, *ids, *keys;  // keys: null if no sample has random changes
  const BatchMix* mix;
  Augmentation augmentation;
  PixelScale scale;
  uint32_t h, w, image_h, image_w, channels;  // of the part of an image that is read, and of the image
};

// One pixel of a sample before the mix.
struct MixedPixel {
  __device__ MixedPixel(const MixedInput& input, uint32_t epoch, int64_t sample, int64_t i, int64_t j) {
    const AugmentedImage augmented(input.augmentation, epoch, input.keys ? input.keys[sample] : 0, input.image_h,
                                   input.image_w);
    const int64_t image = input.ids ? input.ids[sample] : sample;
    const int64_t row = augmented.row(i), column = augmented.column(j);
    const int64_t at = ((image * input.image_h + row) * input.image_w + column) * input.channels;
    bytes = row < 0 || column < 0 ? nullptr : input.images + at;
    erased = augmented.erased().contains(i, j);
  }
  __device__ float value(const PixelScale& scale, uint32_t c) const {
    return erased ? 0.0f : Normalize(scale, c)(bytes ? bytes[c] : uint8_t{0});
  }

  const uint8_t* bytes;
  bool erased;
};

// A thread writes all channels of a pixel.
template <class T>
__global__ void mix_kernel(MixedInput input, int64_t samples, uint32_t pixels, T* x) {
  await_previous_kernel();
  const uint32_t epoch = input.augmentation.epoch ? *input.augmentation.epoch : 0;
  const BatchMix mix = *input.mix;
  for (uint32_t pixel = grid_thread(); pixel < pixels; pixel += grid_threads()) {
    const uint32_t sample = pixel / (input.h * input.w);
    const uint32_t i = pixel % (input.h * input.w) / input.w, j = pixel % input.w;
    const int64_t partner = partner_of(sample, samples);
    const bool mixed = input.labels[input.ids ? input.ids[partner] : partner] != kExcludedLabel;
    const MixedPixel a(input, epoch, sample, i, j), b(input, epoch, partner, i, j);
    for (uint32_t c = 0; c < input.channels; ++c) {
      const float own = a.value(input.scale, c);
      const Pack<float, 1> value{{mixed ? mix(own, b.value(input.scale, c), i, j) : own}};
      store<1>(x + static_cast<int64_t>(pixel) * input.channels + c, value);
    }
  }
}

}  // namespace

void normalize_mixed(CudaContext& context, const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                     const Augmentation& augmentation, const Tensor& x) {
  const ImageShape& part = x.shape.image;
  const MixedInput input{batch.samples,
                         batch.labels,
                         batch.ids,
                         augmentation.any() ? batch.keys : nullptr,
                         batch.mix,
                         augmentation,
                         scale,
                         static_cast<uint32_t>(part.h),
                         static_cast<uint32_t>(part.w),
                         static_cast<uint32_t>(image.h),
                         static_cast<uint32_t>(image.w),
                         static_cast<uint32_t>(image.c)};
  const int64_t pixels = x.shape.n * part.h * part.w;
  with_packs(x.dtype, 1, [&]<class T, int>() {
    launch(context.stream, blocks_over(pixels), kThreads, mix_kernel<T>, input, x.shape.n, pixels, data<T>(x));
  });
}

}  // namespace ddp
