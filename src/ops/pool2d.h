// Average pooling without padding: y[n,i,j,c] = mean over the kernel x kernel window at (i*stride, j*stride) of x.
// Rows and columns that no whole window covers are left out (floor mode), as in PyTorch.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"

namespace ddp {

struct AvgPool2dDesc {
  ImageShape input;
  Format format;  // of input and output alike
  int64_t kernel = 2;
  int64_t stride = 2;
};

inline ImageShape avg_pool2d_output(const AvgPool2dDesc& d) {
  return {(d.input.h - d.kernel) / d.stride + 1, (d.input.w - d.kernel) / d.stride + 1, d.input.c};
}

class AvgPool2d {
 public:
  virtual ~AvgPool2d() = default;
  virtual void forward(const Tensor& x, const Tensor& y) = 0;
  virtual void backward(const Tensor& dy, const Tensor& dx) = 0;  // dx is overwritten, uncovered positions with 0
};

}  // namespace ddp
