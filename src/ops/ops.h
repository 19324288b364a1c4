// The mathematics that a backend offers. Plans (conv2d, linear, pooling) are made once, when the model is built, for
// the batch sizes that will occur; a call with any other batch size throws. All calls are ordered on the device that
// the Ops was made for, and none of them allocates or waits. A batch of 0 samples is never passed.
#pragma once

#include "ops/conv2d.h"
#include "ops/linear.h"
#include "ops/pool2d.h"
#include "ops/samples.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<AvgPool2d> avg_pool2d(const AvgPool2dDesc& desc, std::span<const int64_t> batch_sizes) = 0;

  // The type of activations and of their gradients. Weights and their gradients are f32 always.
  virtual DType activation_dtype() const = 0;

  // The format in which a model's input is best written, given the convolution that reads it first. `first` is null
  // for a model that starts otherwise.
  virtual Format input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const = 0;

  // The same logical values in another format. Padding as device/format.h says. Not in place.
  virtual void reorder(const Tensor& from, const Tensor& to) = 0;

  // x = pixels / 255 for x.shape.n = samples.size images of the shape `image`; where x is smaller it becomes their top
  // left part. Lanes past n become 0.
  virtual void normalize(const Samples& samples, const ImageShape& image, const Tensor& x) = 0;

  // y = max(x, 0) and dx = dy * (y > 0), for a ReLU that no op before it can fuse. In place is allowed.
  virtual void relu(const Tensor& x, const Tensor& y) = 0;
  virtual void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) = 0;

  // Softmax cross-entropy over the channels of `logits` (1 x 1 x classes), in the numerically safe form
  //   loss_i = log(sum_k exp(z_ik - max_i)) - (z_i,label - max_i).
  // stats[0] = sum of loss_i, stats[1] = number of samples whose largest logit (the first of equal ones) is the
  // label; both overwritten. With dlogits: (softmax - onehot) * scale, 0 in lanes past n; dlogits may be logits.
  virtual void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float* stats) = 0;
  virtual void softmax_cross_entropy_backward(const Tensor& logits, const Samples& samples, float scale,
                                              const Tensor& dlogits, float* stats) = 0;

  // Where values[0..count) holds NaN or infinity and *flag is still 0: *flag = mark.
  virtual void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) = 0;

  // w -= lr * g; nothing where any value of `skip` is not 0. lr and skip live on the device.
  virtual void sgd(float* w, const float* g, int64_t count, const float* lr, std::span<const float> skip) = 0;
};

}  // namespace ddp
