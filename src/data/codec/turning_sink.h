// Makes a decoded box upright.
#pragma once

#include "data/codec/decoder.h"
#include "data/codec/orientation.h"
#include "data/resize_kernels.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddp {

// Collects the rows of a box, then gives them to another sink as the orientation demands.
class TurningSink : public RowSink {
 public:
  TurningSink(std::vector<uint8_t>& memory, const Box& stored, int64_t pixel_bytes, std::vector<uint8_t>& strip)
      : memory_(memory), strip_(strip), w_(stored.w), h_(stored.h), bytes_(pixel_bytes) {
    memory_.resize(static_cast<size_t>(w_ * h_ * bytes_));
  }
  void put(const uint8_t* rows, int64_t stride, int64_t count) override {
    for (int64_t i = 0; i < count; ++i, ++filled_)
      std::copy_n(rows + i * stride, w_ * bytes_, memory_.data() + filled_ * w_ * bytes_);
  }
  void turn(const Orientation& orientation, RowSink& sink) {
    // Steps in memory to the next stored pixel of a row and of a column, then to the next upright ones.
    int64_t x_step = orientation.flip_x ? -bytes_ : bytes_, y_step = (orientation.flip_y ? -w_ : w_) * bytes_;
    const uint8_t* origin =
        memory_.data() + (orientation.flip_x ? w_ - 1 : 0) * bytes_ + (orientation.flip_y ? h_ - 1 : 0) * w_ * bytes_;
    if (orientation.transposed) std::swap(x_step, y_step);
    const PictureSize upright = orientation.of({w_, h_});
    const int64_t stride = upright.w * bytes_ + kResizePadding;
    strip_.resize(static_cast<size_t>(kResizeStrip * stride));
    for (int64_t y = 0; y < upright.h; y += kResizeStrip) {
      const int64_t count = std::min(kResizeStrip, upright.h - y);
      for (int64_t x = 0; x < upright.w; ++x)
        for (int64_t i = 0; i < count; ++i)
          std::copy_n(origin + (y + i) * y_step + x * x_step, bytes_, strip_.data() + i * stride + x * bytes_);
      sink.put(strip_.data(), stride, count);
    }
  }

 private:
  std::vector<uint8_t>&memory_, &strip_;
  int64_t w_, h_, bytes_, filled_ = 0;
};

}  // namespace ddp
