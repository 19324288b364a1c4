// The memory layout of a logical NHWC activation. Formats flow forward through a model: an op gets the format of its
// input and reports the format of its output. The gradient of an activation has the format of the activation.
//
//   dense                  [n][h][w][c]
//   batch_interleaved(L)   [ceil(n/L)][h][w][c][L]   L samples side by side: vectors run over samples, so every channel
//                                                    count is efficient. Samples past n hold finite activations and
//                                                    zero gradients.
//   blocked_channels(B)    [n][ceil(c/B)][h][w][B]   oneDNN's nChw8c and nChw16c. Channels past c hold zeros.
#pragma once

#include "core/shape.h"

#include <cstdint>

namespace ddp {

struct Format {
  enum class Kind : uint8_t { dense, batch_interleaved, blocked_channels };
  Kind kind = Kind::dense;
  int block = 1;  // L or B above

  static constexpr Format batch_interleaved(int block) { return {Kind::batch_interleaved, block}; }
  static constexpr Format blocked_channels(int block) { return {Kind::blocked_channels, block}; }
  friend bool operator==(const Format&, const Format&) = default;
};

// Elements of a tensor of this shape in memory, padding included.
constexpr int64_t stored_elements(const Shape& shape, Format format) {
  const auto round_up = [&](int64_t x) { return (x + format.block - 1) / format.block * format.block; };
  const auto& [h, w, c] = shape.image;
  switch (format.kind) {
    case Format::Kind::batch_interleaved: return round_up(shape.n) * h * w * c;
    case Format::Kind::blocked_channels: return shape.n * h * w * round_up(c);
    case Format::Kind::dense: break;
  }
  return shape.elements();
}

}  // namespace ddp
