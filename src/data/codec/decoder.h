// What the decoders of JPEG, PNG and WebP share: what they are asked for, and where their pixels go.
#pragma once

#include "data/codec/picture.h"
#include "data/geometry.h"

#include <cstdint>
#include <cstring>

namespace ddp {

// A box of the picture as it is stored, scaled down to 1/scale.
struct DecodeRequest {
  PictureSize stored;   // of the whole picture, not scaled; a file of another size is an error
  int scale = 1;        // 1; for JPEG also 2, 4, 8
  Box box;              // not empty, in pixels of the scaled picture, whose sizes are rounded up
  int pixel_bytes = 4;  // 1: grey; 4: red, green, blue, and a byte without meaning
  Alpha alpha = Alpha::drop;
};

class RowSink {
 public:
  virtual ~RowSink() = default;
  // The next `count` rows of the box; row i starts at rows + i * stride. kResizePadding bytes behind each can be read.
  virtual void put(const uint8_t* rows, int64_t stride, int64_t count) = 0;
};

// Pillow's luma, ITU-R BT.601 in fixed point.
inline uint8_t grey_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

// a * b / 255, rounded to nearest.
inline uint8_t over_255(uint32_t product) {
  const uint32_t sum = product + 128;
  return static_cast<uint8_t>((sum + (sum >> 8)) >> 8);
}

// Writes a pixel of red, green, blue and alpha as it is asked for. `to` may be the pixel or stand before it.
inline void put_pixel(const uint8_t* rgba, const DecodeRequest& request, uint8_t* to) {
  uint8_t pixel[4];
  std::memcpy(pixel, rgba, 4);
  if (request.alpha != Alpha::drop) {
    const uint32_t background = request.alpha == Alpha::white ? 255 : 0;
    for (int c = 0; c < 3; ++c) pixel[c] = over_255(pixel[c] * uint32_t{pixel[3]} + background * (255u - pixel[3]));
  }
  if (request.pixel_bytes == 1)
    *to = grey_of(pixel);
  else
    std::memcpy(to, pixel, 4);
}

}  // namespace ddp
