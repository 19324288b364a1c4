#include "ops/cuda/ops.h"

#include "core/error.h"
#include "ops/cuda/conv2d.h"
#include "ops/cuda/elementwise.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/pool2d.h"
#include "ops/cuda/softmax.h"

namespace ddp {
namespace {

class CudaOps final : public Ops {
 public:
  CudaOps(Device& device, const CudaOpsConfig& config)
      : context_(device, config), conv2d_(make_cudnn(context_)), linear_(make_cublas(context_)) {
    reserve_softmax(context_);
  }

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override {
    return conv2d_(desc, batch_sizes);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override {
    return linear_(desc, batch_sizes);
  }
  std::unique_ptr<AvgPool2d> avg_pool2d(const AvgPool2dDesc& desc, std::span<const int64_t>) override {
    return make_avg_pool2d(context_, desc);
  }

  DType activation_dtype() const override { return context_.activations(); }
  Format input_format(const Conv2dDesc*, std::span<const int64_t>) const override { return {}; }

  void reorder(const Tensor& from, const Tensor& to) override {
    DDP_EXPECT(from.format == to.format && from.format == Format{} && from.dtype == to.dtype);
    const size_t bytes = from.shape.elements() * size_of(from.dtype);
    DDP_CUDA(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, context_.stream));
  }
  void normalize(const Samples& samples, const ImageShape& image, const Tensor& x) override {
    ddp::normalize(context_, samples, image, x);
  }
  void relu(const Tensor& x, const Tensor& y) override { ddp::relu(context_, x, y); }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    ddp::relu_backward(context_, y, dy, dx);
  }
  void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float* stats) override {
    ddp::softmax_cross_entropy(context_, logits, samples, 0, nullptr, stats);
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const Samples& samples, float scale, const Tensor& dlogits,
                                      float* stats) override {
    ddp::softmax_cross_entropy(context_, logits, samples, scale, &dlogits, stats);
  }
  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    ddp::flag_nonfinite(context_, values, count, mark, flag);
  }
  void sgd(float* w, const float* g, int64_t count, const float* lr, std::span<const float> skip) override {
    ddp::sgd(context_, w, g, count, lr, skip);
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
