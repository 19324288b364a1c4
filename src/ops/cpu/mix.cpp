#include "core/error.h"
#include "ops/augmented_image.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <type_traits>

namespace ddp {
namespace {

// The values of all pixels, by channel (the last one stands for all further ones) and byte.
struct ValueTable {
  explicit ValueTable(const PixelScale& scale) {
    for (int64_t c = 0; c < 3; ++c)
      for (int pixel = 0; pixel < 256; ++pixel) at[c][pixel] = Normalize(scale, c)(static_cast<uint8_t>(pixel));
  }
  const float* of(int64_t channel) const { return at[std::min<int64_t>(channel, 2)]; }
  float at[3][256];
};

// The values of one sample before the mix.
class MixedSample {
 public:
  MixedSample(const DeviceBatch& batch, const ImageShape& image, const Augmentation& augmentation, uint32_t epoch,
              int64_t i)
      : image_(image),
        pixels_(batch.samples + batch.id(i) * image.elements()),
        augmented_(augmentation, epoch, augmentation.any() ? batch.keys[i] : 0, image.h, image.w) {}

  // `values`: of channel c, by byte.
  float at(int64_t i, int64_t j, int64_t c, const float* values) const {
    if (augmented_.erased().contains(i, j)) return 0;
    const int64_t row = augmented_.row(i), column = augmented_.column(j);
    return values[row < 0 || column < 0 ? 0 : pixels_[(row * image_.w + column) * image_.c + c]];
  }

 private:
  const ImageShape& image_;
  const uint8_t* pixels_;
  AugmentedImage augmented_;
};

}  // namespace

void normalize_mixed(const Workers& workers, const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                     const Augmentation& augmentation, const Tensor& x) {
  const auto& [h, w, channels] = x.shape.image;
  const int64_t size = x.shape.n;
  const uint32_t epoch = augmentation.epoch ? *augmentation.epoch : 0;
  const ValueTable table(scale);
  const BatchMix mix = *batch.mix;
  with_values(x, [&](auto* out) {
    using T = std::remove_pointer_t<decltype(out)>;
    if (x.stored() != x.shape.elements()) std::fill_n(out, x.stored(), T{});
    workers.each(size, [&](int64_t n) {
      const int64_t p = partner_of(n, size);
      const bool mixed = batch.labels[batch.id(p)] != kExcludedLabel;
      const MixedSample own(batch, image, augmentation, epoch, n), partner(batch, image, augmentation, epoch, p);
      const SampleLayout layout = layout_of(x, n);
      for (int64_t i = 0; i < h; ++i)
        for (int64_t c = 0; c < channels; ++c) {
          const float* const values = table.of(c);
          T* to = out + layout.at(c) + i * w * layout.pixel_step;
          for (int64_t j = 0; j < w; ++j, to += layout.pixel_step) {
            const float value = own.at(i, j, c, values);
            set(*to, mixed ? mix(value, partner.at(i, j, c, values), i, j) : value);
          }
        }
    });
  });
}

}  // namespace ddp
