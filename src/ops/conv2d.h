// Two-dimensional convolution (cross-correlation) with an optional bias and an optional fused ReLU:
//   y[n,i,j,o] = act(b[o] + sum over (p,q,c) of w[o,p,q,c] * x[n, i*stride+p*d-top, j*stride+q*d-left, c])
// where d is the dilation.
// With groups, output channels and input channels fall into `groups` equal parts, and a part of the outputs reads its
// part of the inputs only: w has input.c / groups input channels.
// On every backend, weights and their gradients are dense f32 in the order O,H,W,I.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/gradient.h"
#include "ops/weight_data.h"
#include "ops/window.h"

namespace ddp {

struct Conv2dDesc {
  ImageShape input;
  Format input_format;
  int64_t out_channels = 0;
  Window2d window;
  int64_t groups = 1;           // divides the channels of input and output; equal to both: depthwise
  bool dense = false;           // input and output are dense, also where another format would be faster
  bool forward = true;          // false: forward is never called
  bool bias = true;             // false: bias and dbias are null in all calls
  bool bias_gradient = true;    // false: dbias is null in all calls
  bool weight_gradient = true;  // false: dweight is null in all calls
  bool relu = false;
  bool input_gradient = true;  // false: backward_input is never called, as for the first layer
};

inline bool sums_bias(const Conv2dDesc& d) { return d.bias && d.bias_gradient; }
inline ImageShape conv2d_output(const Conv2dDesc& d) { return window_output(d.input, d.window, d.out_channels); }

// Samples of a slice of a batch, in each pass.
struct SliceSamples {
  int64_t forward = 0, backward = 0;
};

// A plan for one image shape and for the batch sizes given at its creation. No call allocates.
class Conv2d {
 public:
  virtual ~Conv2d() = default;
  virtual Format output_format() const = 0;

  // Calls also take slices of a planned batch: multiples of these samples, and the last samples of the batch behind
  // such multiples. Powers of two. 0: whole batches only. `backward` holds for both gradients.
  virtual SliceSamples slices() const { return {}; }

  // Sets the weights that later calls use. Call it again after each change of their values. The caller owns the memory
  // and keeps it valid until the next bind. `bias` has out_channels values.
  virtual void bind(const WeightData& weight, const WeightData& bias) = 0;

  virtual void forward(const Tensor& x, const Tensor& y) = 0;

  // Computes the weight and bias gradients, dense. Reads x only for the weight gradient. With a fused ReLU, it first
  // sets dy to 0 in place where y <= 0, but not if y has no data: then a pool has done so (ReluBefore), and dbias is
  // null. Call it before backward_input, which reads that dy. `bf16`: if not null, an op that computes the weight
  // gradient in bf16 leaves it there, whatever the mode, and does not change dweight; GradientScan takes it.
  virtual void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                               Gradient mode, uint16_t* bf16 = nullptr) = 0;
  virtual void backward_input(const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace ddp
