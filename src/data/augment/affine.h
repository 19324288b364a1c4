// Affine maps of an image, as torchvision's affine() and rotate() make them of a uint8 tensor with fill None: what lies
// outside the image is black. Coordinates are pixels from the centre of the image. They are computed in float, in
// torchvision's order, so that nearest chooses the same pixels.
#pragma once

#include "core/shape.h"
#include "data/geometry.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

// The source (x, y) of the position (i, j) of the result: x = m[0] i + m[1] j + m[2], y = m[3] i + m[4] j + m[5].
using AffineMap = std::array<double, 6>;

// Shears by the tangent `t` around the upper left corner, moves by whole pixels, turns by degrees, anticlockwise.
AffineMap shear_x(double t, const ImageShape& image);
AffineMap shear_y(double t, const ImageShape& image);
AffineMap translate(int64_t x, int64_t y);
AffineMap rotate(double degrees);

// Bytes of `scratch` of the functions that change an image.
size_t scratch_bytes(const ImageShape& image);

// Changes the image in place. 1 or 3 channels; nearest or bilinear.
void resample(const AffineMap& map, const ImageShape& shape, Interpolation interpolation, std::span<uint8_t> image,
              std::span<uint8_t> scratch);

}  // namespace ddp
