// Pooling of each channel by itself:
//   average        y = mean over the window; without padding
//   maximum        y = the largest value of the window; padding never wins and NaN always does, as in PyTorch. The
//                  gradient goes to the first largest value of a window, in the order of rows, then columns (as in
//                  PyTorch, but for a window that holds several NaN); of NaN also the first
//   global_average y = mean over all positions, 1 x 1; the window is not used
#pragma once

#include "device/tensor.h"
#include "ops/window.h"

#include <cstdint>

namespace ddp {

struct Pool2dDesc {
  enum class Kind : uint8_t { average, maximum, global_average };
  Kind kind = Kind::average;
  ImageShape input;
  Format format;  // of input and output alike
  Window2d window = {};
};

inline ImageShape pool2d_output(const Pool2dDesc& d) {
  if (d.kind == Pool2dDesc::Kind::global_average) return {1, 1, d.input.c};
  return window_output(d.input, d.window, d.input.c);
}

class Pool2d {
 public:
  virtual ~Pool2d() = default;
  virtual void forward(const Tensor& x, const Tensor& y) = 0;

  // dx is overwritten, positions that no window covers with 0. Only maximum reads x and y, which may else lack data.
  virtual void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace ddp
