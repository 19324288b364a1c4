// Normalisation of each sample by its own values, so without sums over samples or ranks:
//
//   layer norm (Ba, Kiros and Hinton, 2016)  over the channels of one position
//   group norm (Wu and He, 2018)             over the positions and the channels of one group; a group has c / groups
//                                            neighbouring channels
//
//   mean = sum(x) / m, var = sum((x - mean)^2) / m, xhat = (x - mean) / sqrt(var + epsilon)   m: values of one sum
//   y = scale[c] * xhat + shift[c]
//   dscale[c] = sum of dy * xhat, dshift[c] = sum of dy          over samples and positions
//   dx = (g - mean(g) - xhat * mean(g * xhat)) / sqrt(var + epsilon)    g = dy * scale, means over the same m values
//
// Activations are dense, of the backend's type. Sums are f32. Parameters and their gradients are f32, one for each
// channel.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

struct LayerNormDesc {
  ImageShape input;
  int64_t groups = 0;  // 0: a layer norm; else a group norm
  float epsilon = 1e-5f;
};

// A plan; no call allocates. It keeps what backward needs of the last forward, such as 1 / sqrt(var + epsilon).
class LayerNorm {
 public:
  virtual ~LayerNorm() = default;

  // Sets the parameters that later calls read. The caller owns the memory and keeps it valid until their work is done.
  virtual void bind(const float* scale, const float* shift) = 0;
  virtual void forward(const Tensor& x, const Tensor& y) = 0;
  // `dscale` and `dshift` may be null: the parameter is frozen. dx may be dy, or have no data. `mode` is that of dscale
  // and dshift.
  virtual void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, float* dscale, float* dshift,
                        Gradient mode) = 0;
};

}  // namespace ddp
