// Logical shapes of activations: n samples of h x w positions with c channels, c innermost (NHWC). A feature vector
// has h = w = 1.
#pragma once

#include <cstdint>

namespace ddp {

struct ImageShape {
  int64_t h = 1, w = 1, c = 1;

  int64_t elements() const { return h * w * c; }
  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

struct Shape {
  int64_t n = 0;
  ImageShape image;

  int64_t elements() const { return n * image.elements(); }
  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace ddp
