// The geometric transform of a picture: which part of it becomes the image that the network reads. A pure function of
// the picture's size and the sample key; nothing is decoded for it. The definitions are torchvision's.
#pragma once

#include "data/dataset.h"
#include "data/geometry.h"

#include <array>
#include <cstdint>
#include <functional>

namespace ddp {

struct TransformConfig {
  enum class Kind : uint8_t {
    rrc,          // RandomResizedCrop: a random part of random area and aspect ratio
    resize_crop,  // Resize, which keeps the aspect ratio, then RandomCrop
    center,       // Resize, then CenterCrop: the usual transform of validation
    stretch,      // Resize to the crop's size; the aspect ratio changes
    none,         // every picture has the size of the crop
  };
  Kind kind = Kind::center;
  PictureSize crop = {224, 224};                   // size of the result
  int64_t resize = 256;                            // length of the shorter side after Resize; at least the crop's sides
  std::array<double, 2> scale = {0.08, 1};         // rrc: range of the part's area, as a share of the picture's
  std::array<double, 2> ratio = {3. / 4, 4. / 3};  // rrc: range of its width / height
  uint64_t seed = 0;
};

// With the kind none, the picture must have the size of the crop.
Geometry geometry_of(const TransformConfig& config, PictureSize picture, const SampleKey& key);

// RandomResizedCrop.get_params: draws at most ten times an area and an aspect ratio, whose logarithm is uniform, until
// the part fits into the picture; then its position. Else a central part with the nearest aspect ratio allowed.
// `uniform` returns the next number in [0, 1). Computes in float where torchvision does.
Box random_resized_crop(PictureSize picture, const TransformConfig& config, const std::function<float()>& uniform);

}  // namespace ddp
