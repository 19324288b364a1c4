// Batch normalisation of each channel over samples and positions (Ioffe and Szegedy, 2015). It is split into calls, so
// that the caller can sum over ranks between them:
//
//   sum:            s1 = sum of (x - center), s2 = sum of (x - center)^2
//   begin_forward:  mean = center + s1/count, var = s2/count - (s1/count)^2
//   forward:        xhat = (x - mean) / sqrt(var + epsilon), y = act(scale * xhat + shift + skip)
//   backward_sum:   g = act'(z) * (dy + more), t1 = sum of g, t2 = sum of g * xhat
//   begin_backward: takes t1/count and t2/count
//   backward:       dx = scale / sqrt(var + epsilon) * (g - t1/count - xhat * t2/count)
//   evaluate:           y as forward, from a given mean and var
//   evaluate_backward:  dx = scale / sqrt(var + epsilon) * g
//
// - count is the number of samples x positions in the sums, at least 1. A var that rounding makes negative counts as 0.
// - act is `activation` (ops/activation.h). skip is added if `add` is set; then act is nothing or a ReLU.
// - z is the argument of act. For a ReLU act'(z) = y <= 0 ? 0 : 1; for other functions z comes from x again.
// - g is the gradient of skip. backward_sum leaves it in dy if `add` is set or `more` has data; else it leaves either g
//   or dy there. backward reads what it left. t1 and t2 sum g as dy stores it, rounded if activations are bf16.
// - Of this rank's samples, the gradient of shift is t1 and the gradient of scale is t2.
// - Sums are f32, of all channels; s2 lies behind s1. t1 and t2 may be the gradients of shift and scale themselves.
// - center is any value near the mean, such as the running mean; null means 0. It reduces the rounding error of s2.
//
// Activations have the backend's type and `format`. Sums leave out padding: lanes past n and channels past c. In y and
// dx, channels past c become 0; lanes past n become finite in y and 0 in dx.
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/activation.h"
#include "ops/gradient.h"

#include <cstdint>
#include <span>

namespace ddp {

struct BatchNormDesc {
  ImageShape input;
  Format format;
  float epsilon = 1e-5f;
  Activation activation = {};
  bool add = false;
  bool gradients = true;  // false: only evaluate and evaluate_backward are called
};

// A plan; no call allocates. It keeps what backward_sum and backward need of begin_forward and forward, such as the
// mean. For a batch the calls come in the order bind, sum, begin_forward, forward, backward_sum, begin_backward,
// backward. Where Ops::slice_bytes() is above 0, sum, forward, backward_sum and backward may take the batch in parts of
// whole samples; else each takes it at once.
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;

  // Sets the parameters of later batches. Their values stay the same from begin_forward to the last backward. The
  // caller owns the memory and keeps it valid until their work is done. Null means scale 1, shift 0.
  virtual void bind(const float* scale, const float* shift) = 0;

  virtual void sum(const Tensor& x, const float* center, float* sums) = 0;  // overwrites sums
  // For the calls of forward that follow. The caller keeps the memory, and its values, until their work is done.
  virtual void begin_forward(const float* center, const float* sums, float count) = 0;
  virtual void forward(const Tensor& x, const Tensor& skip, const Tensor& y) = 0;
  // Computes y as forward does, but from the given mean and variance. Does not change what forward and backward read.
  virtual void evaluate(const Tensor& x, const Tensor& skip, const Tensor& y, const float* mean,
                        const float* variance) = 0;
  // The backward pass of evaluate, with the same mean and variance. `more` as in backward_sum. Leaves g in dy if `add`
  // is set, or if `more` has data or dx has none; else either g or dy. Reads y for a ReLU only, x and mean for other
  // functions only. dx may be dy.
  virtual void evaluate_backward(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy,
                                 const Tensor& dx, const float* mean, const float* variance) = 0;

  // Overwrites t1 and t2. `more` is a second term of the gradient of y; it may have no data. Reads y for a ReLU only.
  virtual void backward_sum(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, float* t1,
                            float* t2) = 0;
  // For the calls of backward that follow. The caller keeps the memory, and its values, until their work is done.
  virtual void begin_backward(const float* t1, const float* t2, float count) = 0;
  virtual void backward(const Tensor& x, const Tensor& dy, const Tensor& dx) = 0;  // dx may be dy
};

// The place of one layer's running statistics in flat buffers of floats: [mean of all channels][variance of all
// channels] in the state, [s1][s2] at the same offset in the sums.
struct RunningStatsSpan {
  int64_t offset = 0, channels = 0;
  float positions = 1;    // positions per sample, h * w
  float momentum = 0.1f;  // weight of the new statistics, as in PyTorch; Keras's momentum is 1 minus this
  bool unbiased = true;   // divides the variance by count - 1 (if above 0), as PyTorch, else by count
};

// Updates the running statistics of all layers. A plan.
class RunningStats {
 public:
  virtual ~RunningStats() = default;

  // state = (1 - momentum) * state + momentum * (mean and variance from sums). The center of the sums must be the mean
  // in the state; count = samples * positions. With `replace` the momentum is 1. Does nothing if any value of `skip`,
  // in device memory, is not 0.
  virtual void update(float* state, const float* sums, float samples, bool replace, std::span<const float> skip) = 0;
};

}  // namespace ddp
