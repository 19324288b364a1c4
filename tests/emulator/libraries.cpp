// Replaces cuDNN and cuBLASLt on the emulator: enqueues the reference ops as work in the stream.
#include "core/error.h"
#include "device/cpu/device.h"
#include "ops/cuda/bias_gradient.h"
#include "ops/cuda/cuda_ops.h"
#include "tests/ops/reference/ops.h"

#include <emulator/emulator.h>

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

int64_t out_of(const Conv2dDesc& desc) { return desc.out_channels; }
int64_t out_of(const LinearDesc& desc) { return desc.out_features; }
std::unique_ptr<Conv2d> make_reference(Ops& ops, const Conv2dDesc& desc) { return ops.conv2d(desc, {}); }
std::unique_ptr<Linear> make_reference(Ops& ops, const LinearDesc& desc) { return ops.linear(desc, {}); }

// The op. Our kernels compute the ReLU mask and the bias gradient, as in the real CUDA ops.
template <class Op, class Desc>
class Enqueued final : public Op {
 public:
  Enqueued(CudaContext& context, const Desc& desc, std::span<const int64_t> batch_sizes)
      : context_(context), desc_(desc), sizes_(batch_sizes.begin(), batch_sizes.end()) {
    Desc linear = desc;
    linear.relu = false;
    forward_ = make_reference(*reference_, desc);
    backward_ = make_reference(*reference_, linear);
    unused_bias_.resize(out_of(desc));
    reserve_bias_gradient(context, 1 << 16, out_of(desc));
  }

  Format output_format() const override { return {}; }
  void bind(const float* weight, const float* bias) override {
    forward_->bind(weight, bias);
    backward_->bind(weight, bias);
  }
  void forward(const Tensor& x, const Tensor& y) override {
    check(x);
    emulator::enqueue(context_.stream, [this, x, y] { forward_->forward(x, y); });
  }
  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias,
                       Gradient mode) override {
    check(x);
    bias_gradient(context_, desc_.relu ? y : Tensor{}, dy, dbias, mode);
    emulator::enqueue(context_.stream, [this, x, y, dy, dweight, mode] {
      backward_->backward_weight(x, y, dy, dweight, unused_bias_.data(), mode);
    });
  }
  void backward_input(const Tensor& dy, const Tensor& dx) override {
    check(dx);
    emulator::enqueue(context_.stream, [this, dy, dx] { backward_->backward_input(dy, dx); });
  }

 private:
  void check(const Tensor& t) const { DDP_EXPECT(std::find(sizes_.begin(), sizes_.end(), t.shape.n) != sizes_.end()); }

  CudaContext& context_;
  const Desc desc_;
  const std::vector<int64_t> sizes_;
  std::unique_ptr<Device> host_ = make_cpu_device();
  std::unique_ptr<Ops> reference_ = make_reference_ops(*host_);
  std::unique_ptr<Op> forward_, backward_;
  std::vector<float> unused_bias_;
};

}  // namespace

std::unique_ptr<Conv2d> CudaOps::conv2d(const Conv2dDesc& desc, std::span<const int64_t> sizes) {
  return std::make_unique<Enqueued<Conv2d, Conv2dDesc>>(context_, desc, sizes);
}

std::unique_ptr<Linear> CudaOps::linear(const LinearDesc& desc, std::span<const int64_t> sizes) {
  return std::make_unique<Enqueued<Linear, LinearDesc>>(context_, desc, sizes);
}

std::shared_ptr<CudnnLibrary> load_cudnn(const CudaContext&) { return nullptr; }
std::shared_ptr<CublasLibrary> load_cublas() { return nullptr; }

std::string describe_cudnn() { return "plain loops"; }
std::string describe_cublas() { return "plain loops"; }

}  // namespace ddp
