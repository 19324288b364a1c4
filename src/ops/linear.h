// Fully connected layer: y[n,o] = act(b[o] + sum over i of w[o,i] * x[n,i]), with an optional fused ReLU. With more
// than one position it computes the same at each position, and n counts samples times positions. A ReLU keeps NaN;
// cuDNN and cuBLASLt do not say whether a fused one does.
//
// The input is an image of in = h*w*c features in the order h,w,c. In the dense and the batch-interleaved format, the
// flatten before it is a view; an input with blocked channels must be reordered first. The output is 1 x 1 x out.
// Weights and their gradients are dense f32 in the order O,I.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/gradient.h"
#include "ops/weight_data.h"

namespace ddp {

struct LinearDesc {
  int64_t in_features = 0;
  int64_t out_features = 0;
  Format input_format;
  int64_t positions = 1;        // of a sample. More than 1: x is dense, n x positions x in, and y likewise
  bool dense = false;           // input and output are dense, also where another format would be faster
  bool bias = true;             // false: bias and dbias are null in all calls
  bool bias_gradient = true;    // false: dbias is null in all calls
  bool weight_gradient = true;  // false: dweight is null in all calls
  bool relu = false;
  bool input_gradient = true;
};

// The calls have the same contracts as those of Conv2d (ops/conv2d.h).
class Linear {
 public:
  virtual ~Linear() = default;
  virtual Format output_format() const = 0;
  virtual void bind(const WeightData& weight, const WeightData& bias) = 0;
  virtual void forward(const Tensor& x, const Tensor& y) = 0;
  virtual void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                               Gradient mode, uint16_t* bf16 = nullptr) = 0;
  virtual void backward_input(const Tensor& dy, const Tensor& dx) = 0;
};

}  // namespace ddp
