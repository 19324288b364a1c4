// What becomes of the pixels of an image before the network reads them: random changes in training, then normalization.
//
//   x = pixel * scale[c] + shift[c]                        c: the channel
//
// This is torchvision's ToTensor and Normalize for scale = 1 / (255 std) and shift = -mean / std.
//
// The random changes are torchvision's RandomCrop(size of the image, padding=N), then RandomHorizontalFlip. Padding is
// added before normalization: pixels of value 0, or the pixels mirrored at the edge, without the edge itself. The draws
// are a pure function of (seed, epoch, sample). They do not depend on the number of ranks, the batch size or the
// format:
//
//   random(epoch, operation) = philox4x32({0, sample key, epoch, operation}, seed)
//   top     = random(epoch, Operation::padded_crop).word[0] * (2 N + 1) >> 32     the crop's place in the padded image
//   left    = random(epoch, Operation::padded_crop).word[1] * (2 N + 1) >> 32
//   flipped = random(epoch, Operation::flip).word[0] < hflip * 2^32
//
// With alternate_flip a sample is drawn once, and each epoch flips what the epoch before did not (Jordan, "94% on
// CIFAR-10 in 3.29 seconds on a single GPU", 2024):
//
//   flipped = (random(0, Operation::flip).word[0] < 2^31) != (epoch is odd)
//
// RandomErasing (ops/erased_box.h) comes after normalization: x = 0 in the box.
#pragma once

#include "core/shape.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace ddp {

struct PixelScale {
  std::array<float, 3> scale = {1.0f / 255, 1.0f / 255, 1.0f / 255}, shift = {};

  // Whether all of `channels` channels have one scale and one shift. Images of more than three channels must have.
  bool uniform(int64_t channels) const {
    for (size_t c = 1; c < static_cast<size_t>(std::min<int64_t>(channels, 3)); ++c)
      if (scale[c] != scale[0] || shift[c] != shift[0]) return false;
    return true;
  }
};

struct Augmentation {
  float hflip = 0;              // probability of a horizontal flip, in [0, 1]
  bool alternate_flip = false;  // instead of hflip
  int crop_padding = 0;         // N, in pixels
  bool reflect = false;         // the padding is the mirrored image, which must have more than N rows and columns
  float erase = 0;              // probability that a box of the image is erased, in [0, 1]
  uint64_t seed = 0;
  const uint32_t* epoch = nullptr;  // in device memory; read when the work runs. Null: epoch 0

  bool flips() const { return hflip > 0 || alternate_flip; }
  bool any() const { return flips() || crop_padding > 0 || erase > 0; }
  bool fits(const ImageShape& image) const {
    return hflip >= 0 && hflip <= 1 && erase >= 0 && erase <= 1 && crop_padding >= 0 &&
           (!reflect || crop_padding < std::min(image.h, image.w));
  }
};

}  // namespace ddp
