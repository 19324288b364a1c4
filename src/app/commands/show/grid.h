// A sheet of images in rows of eight, with a name under each image.
#pragma once

#include "core/shape.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

class Grid {
 public:
  static constexpr int64_t kColumns = 8;

  // For `count` > 0 images of this shape, of one or three channels. An image narrower than 96 pixels is shown enlarged,
  // each pixel as a square. Of an image with a side over 512 pixels each k-th pixel is shown.
  Grid(int64_t count, const ImageShape& image);

  // Draws the next image, HWC. The name is cut to the width of its cell; a character that is not printable ASCII is
  // shown as '?'.
  void add(std::span<const uint8_t> pixels, std::string_view name);

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  std::span<const uint8_t> rgb() const { return rgb_; }  // HWC

 private:
  void set(int64_t x, int64_t y, const uint8_t* pixel, int64_t channels);

  const ImageShape image_;
  int64_t enlarged_ = 1, every_ = 1;   // shown: (h or w) / every_ * enlarged_ pixels
  int64_t shown_w_ = 0, shown_h_ = 0;  // of an image
  int64_t cell_w_ = 0, cell_h_ = 0;    // with the name and the gap to the next cell
  int64_t width_ = 0, height_ = 0, added_ = 0;
  std::vector<uint8_t> rgb_;
};

}  // namespace ddp
