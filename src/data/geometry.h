// Where the pixels of a sample come from: the plan of a crop and a resize, drawn before a picture is decoded. Pure
// values.
#pragma once

#include <cstdint>

namespace ddp {

struct PictureSize {
  int64_t w = 0, h = 0;  // pixels

  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};

struct Box {
  int64_t x = 0, y = 0, w = 0, h = 0;  // pixels; x and y of the upper left corner

  friend bool operator==(const Box&, const Box&) = default;
};

// What becomes of an upright picture: `source` is cut out (pixels outside it have no influence), resized to `resized`,
// and `window` of the result is kept. `window` may reach outside the resized picture: these pixels are 0. If source and
// resized have one size, no pixel changes.
struct Geometry {
  Box source;  // not empty, inside the picture
  PictureSize resized;
  Box window;

  friend bool operator==(const Geometry&, const Geometry&) = default;
};

// The filters of Pillow's Image.resize. The first two are antialiased: their support grows with the scale.
enum class Interpolation : uint8_t { bilinear, bicubic, nearest };

}  // namespace ddp
