// Batch normalisation of each channel over samples and positions (Ioffe and Szegedy, 2015), in parts, so that sums can
// be added up over ranks between them:
//
//   sum:       s1 = sum of (x - center), s2 = sum of (x - center)^2
//   forward:   mean = center + s1/count, var = s2/count - (s1/count)^2, xhat = (x - mean) / sqrt(var + epsilon),
//              y = act(scale * xhat + shift + skip)
//   backward_sum:  dy becomes (dy + more) * (y > 0), t1 = sum of dy, t2 = sum of dy * xhat
//   backward:  dx = scale / sqrt(var + epsilon) * (dy - t1/count - xhat * t2/count)
//
// where count is the number of samples x positions that went into the sums, at least 1; var is 0 where rounding makes
// it negative; act is a ReLU where `relu`, and skip is added where `add`. t1 and t2 are sums of dy as it was stored,
// which may have rounded it. The gradient of shift is t1 and that of scale t2, of this rank's samples; that of skip is
// dy as backward_sum left it. Sums are f32, [s1 of every channel][s2 of every channel]; `center` may be any value near
// the mean (the running mean), or null for 0, and keeps s2 from losing digits.
//
// Activations have the backend's type and `format`; lanes past n and channels past c are neither summed nor, in y and
// dx, anything but 0 (channels) or finite (y's lanes) or 0 (dx's lanes).
#pragma once

#include "core/shape.h"
#include "device/tensor.h"
#include "ops/gradient.h"

#include <cstdint>
#include <span>

namespace ddp {

struct BatchNormDesc {
  ImageShape input;
  Format format;
  float epsilon = 1e-5f;
  bool relu = false, add = false;
};

// A plan; no call allocates. It keeps mean and 1/sqrt(var + epsilon) of the last forward for the backward calls.
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;

  // Read by the calls that follow, whenever they run: the memory stays the caller's. Null: scale 1, shift 0.
  virtual void bind(const float* scale, const float* shift) = 0;

  virtual void sum(const Tensor& x, const float* center, float* sums) = 0;  // overwrites sums
  virtual void forward(const Tensor& x, const Tensor& skip, const Tensor& y, const float* center, const float* sums,
                       float count) = 0;
  // y from given statistics, as forward would from equal ones. Keeps nothing.
  virtual void evaluate(const Tensor& x, const Tensor& skip, const Tensor& y, const float* mean,
                        const float* variance) = 0;

  // `more`, a second part of the gradient of y, may lack data; y is read only where `relu`. Overwrites sums.
  virtual void backward_sum(const Tensor& x, const Tensor& y, const Tensor& more, const Tensor& dy, float* sums) = 0;
  // dx may be dy.
  virtual void backward(const Tensor& x, const Tensor& dy, const Tensor& dx, const float* sums, float count) = 0;
};

// Where the running statistics of one layer lie, in floats: [mean of every channel][variance of every channel] in the
// state, [s1][s2] at the same offset in the sums.
struct RunningStatsSpan {
  int64_t offset = 0, channels = 0;
  float positions = 1;    // of one sample
  float momentum = 0.1f;  // the weight of what is new (PyTorch's sense; Keras's is one minus it)
  bool unbiased = true;   // the variance that is kept is over count - 1 where that is above 0 (PyTorch); else count
};

// Updates the statistics of all layers at once. A plan.
class RunningStats {
 public:
  virtual ~RunningStats() = default;

  // state = (1 - momentum) * state + momentum * (mean and variance of sums), where sums were taken with the state's
  // mean as center and count = samples * positions. With `replace` the momentum is 1. Nothing where any value of `skip`
  // (on the device) is not 0.
  virtual void update(float* state, const float* sums, float samples, bool replace, std::span<const float> skip) = 0;
};

}  // namespace ddp
