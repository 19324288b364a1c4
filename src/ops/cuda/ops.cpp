#include "ops/cuda/ops.h"

#include "core/error.h"
#include "ops/cuda/batch_norm.h"
#include "ops/cuda/clipping.h"
#include "ops/cuda/conv2d.h"
#include "ops/cuda/dropout.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/optimizer.h"
#include "ops/cuda/pool2d.h"
#include "ops/cuda/running_stats.h"
#include "ops/cuda/softmax.h"

namespace ddp {
namespace {

class CudaOps final : public Ops {
 public:
  CudaOps(Device& device, const CudaOpsConfig& config)
      : context_(device, config), conv2d_(make_cudnn(context_)), linear_(make_cublas(context_)) {
    reserve_softmax(context_);
    reserve_sum_of_squares(context_);
  }

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override {
    return conv2d_(desc, batch_sizes);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override {
    return linear_(desc, batch_sizes);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t>) override {
    return make_pool2d(context_, desc);
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) override {
    return make_batch_norm(context_, desc, batch_sizes);
  }
  std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) override {
    return make_running_stats(context_, layers);
  }
  std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) override {
    return make_optimizer(context_, desc, tensors);
  }

  DType activation_dtype() const override { return context_.activations(); }
  Format input_format(const Conv2dDesc*, std::span<const int64_t>) const override { return {}; }

  void reorder(const Tensor& from, const Tensor& to) override {
    DDP_EXPECT(from.format == to.format && from.format == Format{} && from.dtype == to.dtype);
    const size_t bytes = from.shape.elements() * size_of(from.dtype);
    DDP_CUDA(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, context_.stream));
  }
  void normalize(const DeviceBatch& batch, const ImageShape& image, const Tensor& x) override {
    ddp::normalize(context_, batch, image, x);
  }
  void relu(const Tensor& x, const Tensor& y) override { ddp::relu(context_, x, y); }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    ddp::relu_backward(context_, y, dy, dx);
  }
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override { ddp::add(context_, a, b, y); }
  void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) override {
    ddp::dropout(context_, dropout, x, batch, y);
  }
  void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats) override {
    ddp::softmax_cross_entropy(context_, logits, batch, 0, 0, nullptr, stats, Gradient::overwrite);
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing,
                                      const Tensor& dlogits, float* stats, Gradient mode) override {
    ddp::softmax_cross_entropy(context_, logits, batch, scale, smoothing, &dlogits, stats, mode);
  }
  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    ddp::flag_nonfinite(context_, values, count, mark, flag);
  }
  void copy_or_add(const float* from, float* to, int64_t count, Gradient mode) override {
    ddp::copy_or_add(context_, from, to, count, mode);
  }
  void to_bf16(const float* from, void* to, int64_t count) override { ddp::to_bf16(context_, from, to, count); }
  void from_bf16(const void* from, float* to, int64_t count) override {
    ddp::from_bf16(context_, from, to, count, Gradient::overwrite);
  }
  void sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) override {
    ddp::sum_of_squares(context_, values, count, sum, mode);
  }
  void clip_scale(const float* sum, float limit, float* scale) override {
    ddp::clip_scale(context_, sum, limit, scale);
  }

 private:
  CudaContext context_;
  Conv2dMaker conv2d_;
  LinearMaker linear_;
};

}  // namespace

std::string describe_cuda_ops() { return describe_cudnn() + ", " + describe_cublas(); }

std::unique_ptr<Ops> make_cuda_ops(Device& device, const CudaOpsConfig& config) {
  return std::make_unique<CudaOps>(device, config);
}

}  // namespace ddp
