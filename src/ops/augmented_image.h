// Where the pixels of one augmented image come from (ops/input_transform.h). Both backends share it.
#pragma once

#include "core/philox.h"
#include "ops/erased_box.h"
#include "ops/host_device.h"
#include "ops/input_transform.h"

#include <cstdint>

namespace ddp {

class AugmentedImage {
 public:
  // The image of the sample `key`, of h x w pixels. Draws no random numbers for what is off.
  DDP_HOST_DEVICE AugmentedImage(const Augmentation& a, uint32_t epoch, int32_t key, int64_t h, int64_t w)
      : h_(h), w_(w), top_(0), left_(0), flipped_(false), reflect_(a.reflect) {
    if (a.crop_padding > 0) {
      const Bits128 random = draw(a.seed, key, epoch, Operation::padded_crop);
      top_ = offset(random.word[0], a.crop_padding);
      left_ = offset(random.word[1], a.crop_padding);
    }
    if (a.alternate_flip)
      flipped_ = (draw(a.seed, key, 0, Operation::flip).word[0] < 0x80000000u) != (epoch % 2 == 1);
    else if (a.hflip > 0)
      flipped_ = draw(a.seed, key, epoch, Operation::flip).word[0] < static_cast<double>(a.hflip) * 0x1p32;
    if (a.erase > 0) erased_ = draw_erased_box(a.erase, a.seed, epoch, key, h, w);
  }

  // The row or column of the image that row i or column j shows; -1 in constant padding.
  DDP_HOST_DEVICE int64_t row(int64_t i) const { return source(i + top_, h_); }
  DDP_HOST_DEVICE int64_t column(int64_t j) const { return source((flipped_ ? w_ - 1 - j : j) + left_, w_); }

  // The columns j of [0, width) that show no padding. Their sources are neighbours, in the direction of step().
  DDP_HOST_DEVICE int64_t first_inside(int64_t width) const {
    const int64_t first = flipped_ ? left_ : -left_;
    return first < 0 ? 0 : first < width ? first : width;
  }
  DDP_HOST_DEVICE int64_t end_inside(int64_t width) const {
    const int64_t end = w_ + (flipped_ ? left_ : -left_);
    return end < 0 ? 0 : end < width ? end : width;
  }
  DDP_HOST_DEVICE int64_t step() const { return flipped_ ? -1 : 1; }

  DDP_HOST_DEVICE const ErasedBox& erased() const { return erased_; }  // of the changed image

 private:
  DDP_HOST_DEVICE static Bits128 draw(uint64_t seed, int32_t key, uint32_t epoch, Operation operation) {
    return philox4x32({{0, static_cast<uint32_t>(key), epoch, static_cast<uint32_t>(operation)}}, seed);
  }
  // Uniform in [-padding, padding]: of the crop against the image without padding.
  DDP_HOST_DEVICE static int64_t offset(uint32_t word, int64_t padding) {
    return drawn_below(word, 2 * padding + 1) - padding;
  }
  DDP_HOST_DEVICE int64_t source(int64_t at, int64_t extent) const {
    if (at >= 0 && at < extent) return at;
    if (!reflect_) return -1;
    return at < 0 ? -at : 2 * (extent - 1) - at;
  }

  int64_t h_, w_, top_, left_;
  bool flipped_, reflect_;
  ErasedBox erased_;
};

}  // namespace ddp
