// The operations of a backend.
//
// The model makes plans once, when it is built: conv2d, linear, pool2d, the norms and attention for a list of batch
// sizes, running_stats, optimizer, gradient_scan and tensor_hash for their flat buffers. Callers use planned batch
// sizes only, of at least one sample; ops that cannot run another size throw Error(Exit::internal).
//
// Calls run in order on the device of the Ops. No call allocates or waits.
#pragma once

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/conv2d.h"
#include "ops/device_batch.h"
#include "ops/dropout.h"
#include "ops/gradient_scan.h"
#include "ops/input_transform.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/optimizer.h"
#include "ops/pool2d.h"
#include "ops/ranked_class.h"
#include "ops/tensor_hash.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

class Ops {
 public:
  virtual ~Ops() = default;

  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<LayerNorm> layer_norm(const LayerNormDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<Attention> attention(const AttentionDesc& desc, std::span<const int64_t> batch_sizes) = 0;
  virtual std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) = 0;
  virtual std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc,
                                                 std::span<const OptimizerTensor> tensors) = 0;
  virtual std::unique_ptr<GradientScan> gradient_scan(std::span<const ScannedTensor> tensors) = 0;
  virtual std::unique_ptr<TensorHash> tensor_hash(std::span<const HashedSpan> tensors) = 0;

  // The type of activations and their gradients. Weights and their gradients are always f32.
  virtual DType activation_dtype() const = 0;
  // Whether convolutions and linear layers read weights and biases that the caller has rounded to bf16.
  virtual bool reads_bf16_weights() const { return false; }

  // Whether the backward pass of a pool takes a ReluBefore.
  virtual bool pools_take_relu() const { return false; }

  // Bytes of the tensors of a slice that stay in the cache from one op to the next. 0: a model runs whole batches.
  virtual int64_t slice_bytes() const { return 0; }

  // The best format for the input of a model. `first` is the convolution that reads it, or null if the first layer is
  // not a convolution.
  virtual Format input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const = 0;

  // Copies values to another format. Padding follows device/format.h. Not in place.
  virtual void reorder(const Tensor& from, const Tensor& to) = 0;

  // The values of the pixels of x.shape.n = batch.size images of shape `image`, after random changes of the images
  // (ops/input_transform.h). If x has a smaller shape, it gets the top left part of the changed images. Lanes past n
  // become 0. `augmentation` must fit the image; if it changes anything, the batch has keys. More than three channels
  // need a uniform scale. If the batch has a mix, x gets the mixed values (ops/batch_mix.h).
  virtual void normalize(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                         const Augmentation& augmentation, const Tensor& x) = 0;

  // y = max(x, 0) and dx = y <= 0 ? 0 : dy, for a ReLU that is not fused into another op. NaN stays NaN. In place is
  // allowed.
  virtual void relu(const Tensor& x, const Tensor& y) = 0;
  virtual void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) = 0;

  // y = f(x) and dx = dy * f'(x), for any function but `none`. NaN stays NaN. Padding follows device/format.h. In place
  // is allowed: y may be x, and dx may be dy.
  virtual void activation(const Activation& activation, const Tensor& x, const Tensor& y) = 0;
  virtual void activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy,
                                   const Tensor& dx) = 0;

  // y = a + b; all have the same format and type. y may be a or b.
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& y) = 0;

  // Computes y from x; backward makes the same call with dy and dx. In place is allowed.
  virtual void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) = 0;

  // Copies channels [first, first + count) of `from` to channels [to_first, to_first + count) of `to`. Both have the
  // same samples, positions, format and type. With blocked channels both ranges start at a block, and end at one or
  // where their tensors end; padding is copied too. Not in place.
  virtual void copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) = 0;
  // y[channel first + k] = values[k] for k in [0, count), at each position of a dense y. `values` are f32; null: zeros.
  virtual void set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) = 0;
  // sums[k] = sum of dy[channel first + k] over the samples and positions of a dense dy.
  virtual void sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) = 0;

  // y = x * s, where s has one position and the samples and channels of x. All have the same format and type. y may be
  // x. backward: dx = dy * s, ds = sum of dy * x over positions, in f32. dx may be dy, or have no data; so may ds.
  virtual void gate(const Tensor& x, const Tensor& s, const Tensor& y) = 0;
  virtual void gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx,
                             const Tensor& ds) = 0;

  // y = x * scale[c] + shift[c]; `scale` and `shift` are f32, one value for each channel. Null: 1, and 0. y may be x.
  // Padding follows device/format.h if shift is null. backward: dx = dy * scale[c], dscale[c] = sum of dy * x over
  // samples and positions. dx may be dy, or have no data. dscale may be null; then x is not read.
  virtual void scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) = 0;
  virtual void scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx,
                                       float* dscale, Gradient mode) = 0;

  // y[n, t] = row of `table` (f32, rows of y's channels) for token t of sample n; y is dense, T x 1 x c. All tokens of
  // the batch are below the number of rows. backward: dtable[row] = sum of dy over the positions with that token, in
  // their order; Gradient::overwrite sets the other rows of the table, which has `rows` rows, to 0.
  virtual void embedding(const DeviceBatch& batch, const float* table, const Tensor& y) = 0;
  virtual void embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                                  Gradient mode) = 0;

  // Softmax cross-entropy over the channels of `logits` (1 x 1 x classes), in the numerically safe form
  //   loss_i = log(sum_k exp(z_ik - max_i)) - (z_i,label - max_i).
  // stats[0] = sum of loss_i; stats[1] = number of samples whose largest logit (the first of equal ones) is the label.
  // `mode` holds for both. dlogits = (softmax - target) * scale, and 0 in lanes past n; dlogits may be logits. With
  // smoothing, target = (1 - smoothing) * onehot + smoothing / classes and loss_i = - sum_k target_ik * log softmax_ik,
  // as in torch.nn.CrossEntropyLoss(label_smoothing).
  //
  // Of tokens (DeviceBatch::sequence_length), logits are T x 1 x classes and dense, and each position has a label: the
  // loss of a sample is the mean over its positions, and stats[1] sums the shares of correct positions. `ranked` is
  // null then, and the batch has neither mix nor class weights.
  //
  // A sample with the label kExcludedLabel adds nothing to stats, and its dlogits are 0.
  //
  // If the batch has a mix, onehot is the sum of both labels' by their shares (ops/batch_mix.h), as for
  // CrossEntropyLoss with probabilities; stats[1] counts the sample's own label. If it has class weights, loss_i and
  // the gradient of a sample are multiplied by the weight of its label, as for CrossEntropyLoss(weight). Both together
  // are not permitted, nor class weights with smoothing, where PyTorch has another formula.
  //
  // The first function overwrites stats. `ranked`, if not null, gets an entry for each sample; {-1, -1} for an excluded
  // one.
  virtual void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats,
                                     RankedClass* ranked) = 0;
  virtual void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale,
                                              float smoothing, const Tensor& dlogits, float* stats, Gradient mode) = 0;

  // *flag = mark if values[0..count) contains NaN or infinity and *flag is 0.
  virtual void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) = 0;

  // For f32 values in device memory, such as parameters, gradients and sums.
  virtual void copy_or_add(const float* from, float* to, int64_t count, Gradient mode) = 0;  // to = from or to += from
  // to += rate * (from - to), as torch.lerp; rate 1 copies. Does nothing if a value of `skip` is not 0.
  virtual void lerp(const float* from, float* to, int64_t count, float rate, std::span<const float> skip) = 0;
  virtual void to_bf16(const float* from, void* to, int64_t count) = 0;
  virtual void from_bf16(const void* from, float* to, int64_t count) = 0;

  // Sets *sum to the sum of the squares of values[0..count), or adds it to *sum. The same bits on every run.
  virtual void sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) = 0;
  // *scale *= min(1, limit / (*scale * sqrt(*sum) + 1e-6)), as in torch.nn.utils.clip_grad_norm_ for a gradient times
  // *scale. The factor is 0 for an infinite sum and 1 for NaN.
  virtual void clip_scale(const float* sum, float limit, float* scale) = 0;
  // A gradient was divided by *scale samples, whose weights add to *seen; excluded samples have none: *scale becomes
  // *scale / *seen. If *seen is 0: *scale = 1, and *flag = mark where *flag is 0.
  virtual void correct_for_excluded(const float* seen, float mark, float* scale, float* flag) = 0;
};

}  // namespace ddp
