// Pooling of each channel:
//   average        y = mean over the window; no padding allowed
//   maximum        y = largest value of the window, without padding; NaN counts as the largest, as in PyTorch. The
//                  gradient goes to the first largest value of the window, or to its first NaN, in row-major order.
//                  (PyTorch differs for windows with several NaN.)
//   global_average y = mean over all positions, 1 x 1; the window is ignored
//   adaptive_average
//                  y = mean over rows floor(i*h/oh) ... ceil((i+1)*h/oh)-1 and columns likewise, for an output of
//                  oh x ow, as torch.nn.AdaptiveAvgPool2d; the window is ignored
#pragma once

#include "device/tensor.h"
#include "ops/gradient.h"
#include "ops/window.h"

#include <cstdint>

namespace ddp {

struct Pool2dDesc {
  enum class Kind : uint8_t { average, maximum, global_average, adaptive_average };
  Kind kind = Kind::average;
  ImageShape input;
  Format format;  // format of input and output
  Window2d window = {};
  int64_t out_h = 1, out_w = 1;  // of adaptive_average
};

inline ImageShape pool2d_output(const Pool2dDesc& d) {
  if (d.kind == Pool2dDesc::Kind::global_average) return {1, 1, d.input.c};
  if (d.kind == Pool2dDesc::Kind::adaptive_average) return {d.out_h, d.out_w, d.input.c};
  return window_output(d.input, d.window, d.input.c);
}

// For a pool that alone reads the output of a ReLU, with a bias in front of it: backward also computes their gradients.
// Only where Ops::pools_take_relu().
struct ReluBefore {
  bool applies = false;
  float* dbias = nullptr;  // one value per channel; null: there is no bias
  Gradient mode = Gradient::overwrite;
};

class Pool2d {
 public:
  virtual ~Pool2d() = default;
  virtual void forward(const Tensor& x, const Tensor& y) = 0;

  // Overwrites dx; positions outside all windows become 0. Only maximum reads x and y; the other kinds accept tensors
  // without data. With `relu`, all kinds read x: dx is set to 0 where x <= 0, and dbias gets its sums over samples and
  // positions.
  virtual void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx,
                        const ReluBefore& relu = {}) = 0;
};

}  // namespace ddp
