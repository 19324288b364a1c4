// The class of the CPU backend. Each op is a member, defined in the file of its family.
#pragma once

#include "ops/cpu/conv2d.h"
#include "ops/cpu/measured_conv2d.h"
#include "ops/cpu/ops.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, const CpuOpsConfig& config);

  DType activation_dtype() const override { return activations_; }
  // The same on all processors, because sums are added slice by slice.
  int64_t slice_bytes() const override { return slice_bytes_; }

  // conv2d.cpp
  Format input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const override;
  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override;
  // linear.cpp
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override;
  // pool2d.cpp
  std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t> batch_sizes) override;
  // batch_norm.cpp
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) override;
  // layer_norm.cpp
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormDesc& desc, std::span<const int64_t> batch_sizes) override;
  // attention.cpp
  std::unique_ptr<Attention> attention(const AttentionDesc& desc, std::span<const int64_t> batch_sizes) override;
  // running_stats.cpp
  std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) override;
  // optimizer.cpp
  std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) override;
  // elementwise.cpp
  std::unique_ptr<GradientScan> gradient_scan(std::span<const ScannedTensor> tensors) override;
  // tensor_hash.cpp
  std::unique_ptr<TensorHash> tensor_hash(std::span<const HashedSpan> tensors) override;

  // layout.cpp
  void reorder(const Tensor& from, const Tensor& to) override;
  // dropout.cpp
  void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) override;
  // channels.cpp
  void copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) override;
  void set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) override;
  // scale.cpp
  void sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) override;
  void gate(const Tensor& x, const Tensor& s, const Tensor& y) override;
  void gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx, const Tensor& ds) override;
  void scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) override;
  void scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx, float* dscale,
                               Gradient mode) override;
  // embedding.cpp
  void embedding(const DeviceBatch& batch, const float* table, const Tensor& y) override;
  void embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                          Gradient mode) override;
  // softmax.cpp
  void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats,
                             RankedClass* ranked) override;
  void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing,
                                      const Tensor& dlogits, float* stats, Gradient mode) override;
  // activation.cpp
  void activation(const Activation& activation, const Tensor& x, const Tensor& y) override;
  void activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  // elementwise.cpp
  void normalize(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                 const Augmentation& augmentation, const Tensor& x) override;
  void relu(const Tensor& x, const Tensor& y) override;
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override;
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override;
  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override;
  void copy_or_add(const float* from, float* to, int64_t count, Gradient mode) override;
  void lerp(const float* from, float* to, int64_t count, float rate, std::span<const float> skip) override;
  void to_bf16(const float* from, void* to, int64_t count) override;
  void from_bf16(const void* from, float* to, int64_t count) override;
  void sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) override;
  void clip_scale(const float* sum, float limit, float* scale) override;
  void correct_for_excluded(const float* seen, float mark, float* scale, float* flag) override;

 private:
  bool uses_lanes(const Conv2dDesc& desc) const {
    return activations_ == DType::f32 && !desc.dense && !suits_dnnl(desc);
  }

  Workers workers_;
  DType activations_;
  int64_t slice_bytes_;
  DnnlConfig dnnl_;
  ConvChooser chooser_;
};

}  // namespace ddp
