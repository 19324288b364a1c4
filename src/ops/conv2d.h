// Two-dimensional convolution (cross-correlation) with an optional bias and an optional fused ReLU:
//   y[n,i,j,o] = act(b[o] + sum over (p,q,c) of w[o,p,q,c] * x[n, i*stride+p-top, j*stride+q-left, c])
// Weights and their gradients are dense f32 in the order O,H,W,I on every backend.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/gradient.h"
#include "ops/window.h"

namespace ddp {

struct Conv2dDesc {
  ImageShape input;
  Format input_format;
  int64_t out_channels = 0;
  Window2d window;
  bool bias = true;  // without: bias and dbias are null in the calls
  bool relu = false;
  bool input_gradient = true;  // false for the first layer: backward_input is then never called
};

inline ImageShape conv2d_output(const Conv2dDesc& d) { return window_output(d.input, d.window, d.out_channels); }

// A plan for one shape of image and the batch sizes that were declared when it was made; no call allocates.
class Conv2d {
 public:
  virtual ~Conv2d() = default;
  virtual Format output_format() const = 0;

  // The weights used by the calls that follow; to be called again whenever their values have changed. The memory
  // stays the caller's and outlives the binding. `bias` has out_channels values.
  virtual void bind(const float* weight, const float* bias) = 0;

  virtual void forward(const Tensor& x, const Tensor& y) = 0;

  // Weight and bias gradients, dense. With a fused ReLU, dy is first multiplied in place by (y > 0); so this comes
  // before backward_input, which takes dy as this left it.
  virtual void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                               Gradient mode) = 0;
  virtual void backward_input(const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace ddp
