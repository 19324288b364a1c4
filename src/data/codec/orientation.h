// EXIF's eight orientations as three steps: a stored picture is flipped along x, flipped along y, and transposed; then
// it is upright.
#pragma once

#include "data/geometry.h"

#include <cstdint>

namespace ddp {

// Pixel edges: the pixels from x0 to x1 and from y0 to y1, which may be fractions.
struct Edges {
  double x0 = 0, x1 = 0, y0 = 0, y1 = 0;
};

struct Orientation {
  bool flip_x = false, flip_y = false, transposed = false;

  // `exif`: 1 to 8.
  explicit Orientation(int exif)
      : flip_x(exif == 2 || exif == 3 || exif == 7 || exif == 8),
        flip_y(exif == 3 || exif == 4 || exif == 6 || exif == 7),
        transposed(exif >= 5) {}

  bool upright() const { return !flip_x && !flip_y && !transposed; }

  PictureSize of(const PictureSize& size) const {  // both ways
    return transposed ? PictureSize{size.h, size.w} : size;
  }

  // The part of the upright picture that is `box` of the stored one, and the reverse. `stored`: the picture's size.
  Edges to_upright(const Edges& box, const PictureSize& stored) const {
    const Edges flipped = flip(box, stored);
    return transposed ? transpose(flipped) : flipped;
  }
  Edges to_stored(const Edges& box, const PictureSize& stored) const {
    return flip(transposed ? transpose(box) : box, stored);
  }

 private:
  static Edges transpose(const Edges& box) { return {box.y0, box.y1, box.x0, box.x1}; }
  Edges flip(const Edges& box, const PictureSize& size) const {
    const auto w = static_cast<double>(size.w), h = static_cast<double>(size.h);
    Edges result = box;
    if (flip_x) result.x0 = w - box.x1, result.x1 = w - box.x0;
    if (flip_y) result.y0 = h - box.y1, result.y1 = h - box.y0;
    return result;
  }
};

}  // namespace ddp
