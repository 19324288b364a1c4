// The class of the GPU backend. Each op is a member, defined in the file of its family. Activations are dense, in f32
// or bf16; parameters and their gradients are f32. The order of all sums depends on the shape only.
#pragma once

#include "ops/cuda/context.h"
#include "ops/cuda/ops.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace ddp {

struct CudnnLibrary;   // cudnn_library.h
struct CublasLibrary;  // linear.cpp

class CudaOps final : public Ops {
 public:
  // Loads cuDNN and cuBLASLt. Throws Error(Exit::device).
  CudaOps(Device& device, const CudaOpsConfig& config);

  DType activation_dtype() const override { return context_.activations(); }
  bool reads_bf16_weights() const override { return context_.activations() == DType::bf16; }
  bool pools_take_relu() const override { return true; }

  // conv2d.cpp
  Format input_format(const Conv2dDesc*, std::span<const int64_t>) const override { return {}; }
  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override;
  // linear.cpp
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override;
  // pool2d.cu
  std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t> batch_sizes) override;
  // batch_norm.cu
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) override;
  // layer_norm.cu
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormDesc& desc, std::span<const int64_t> batch_sizes) override;
  // attention.cpp
  std::unique_ptr<Attention> attention(const AttentionDesc& desc, std::span<const int64_t> batch_sizes) override;
  // running_stats.cu
  std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) override;
  // optimizer.cu
  std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) override;
  // gradient_scan.cu
  std::unique_ptr<GradientScan> gradient_scan(std::span<const ScannedTensor> tensors) override;
  // tensor_hash.cu
  std::unique_ptr<TensorHash> tensor_hash(std::span<const HashedSpan> tensors) override;

  // ops.cpp
  void reorder(const Tensor& from, const Tensor& to) override;
  // dropout.cu
  void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) override;
  // channels.cu
  void copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) override;
  void set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) override;
  // scale.cu
  void sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) override;
  void gate(const Tensor& x, const Tensor& s, const Tensor& y) override;
  void gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx, const Tensor& ds) override;
  void scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) override;
  void scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx, float* dscale,
                               Gradient mode) override;
  // embedding.cu
  void embedding(const DeviceBatch& batch, const float* table, const Tensor& y) override;
  void embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                          Gradient mode) override;
  // softmax.cu
  void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats,
                             RankedClass* ranked) override;
  void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing,
                                      const Tensor& dlogits, float* stats, Gradient mode) override;
  // activation.cu
  void activation(const Activation& activation, const Tensor& x, const Tensor& y) override;
  void activation_backward(const Activation& activation, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  // elementwise.cu
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
  CudaContext context_;
  std::shared_ptr<CudnnLibrary> cudnn_;  // its plans keep it loaded
  std::shared_ptr<CublasLibrary> cublas_;
};

// attention.cu: our own kernels, for each type and shape.
std::unique_ptr<Attention> make_attention_kernels(CudaContext& context, const AttentionDesc& desc,
                                                  std::span<const int64_t> batch_sizes);

// cudnn_library.cpp
std::shared_ptr<CudnnLibrary> load_cudnn(const CudaContext& context);
std::string describe_cudnn();  // such as "cuDNN 9.19.0"
// linear.cpp
std::shared_ptr<CublasLibrary> load_cublas();
std::string describe_cublas();  // such as "cuBLASLt 13.1.0"

// The workspace of ops that have no plan; the constructor reserves it.
void reserve_softmax(CudaContext& context);         // softmax.cu
void reserve_sum_of_squares(CudaContext& context);  // elementwise.cu
void reserve_channel_sums(CudaContext& context);    // scale.cu

}  // namespace ddp
