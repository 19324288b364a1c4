// How a logical NHWC activation lies in memory. Formats flow forward through a model: an op is told the format of its
// input and reports that of its output; the gradient of an activation has the activation's format.
//
//   dense        [n][h][w][c]
//   lanes(L)     [ceil(n/L)][h][w][c][L]    L samples side by side: vectors run over samples, so any channel count is
//                                           efficient. Lanes past n hold finite activations and zero gradients.
//   channels(B)  [n][ceil(c/B)][h][w][B]    oneDNN's nChw8c and nChw16c. Channels past c hold zeros.
#pragma once

#include "core/shape.h"

#include <cstdint>

namespace ddp {

struct Format {
  enum class Kind : uint8_t { dense, batch_interleaved, blocked_channels };
  Kind kind = Kind::dense;
  int block = 1;

  static constexpr Format batch_interleaved(int block) { return {Kind::batch_interleaved, block}; }
  static constexpr Format blocked_channels(int block) { return {Kind::blocked_channels, block}; }
  friend bool operator==(const Format&, const Format&) = default;
};

// Elements a tensor of this shape takes in memory, padding included.
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
