#include "ops/cpu/ops.h"

#include "core/error.h"
#include "ops/cpu/batch_norm.h"
#include "ops/cpu/clipping.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/lane_linear.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/optimizer.h"
#include "ops/cpu/pool2d.h"
#include "ops/cpu/running_stats.h"
#include "ops/cpu/softmax.h"

#include <omp.h>

namespace ddp {
namespace {

class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, const CpuOpsConfig& config)
      : workers_{device, config.threads},
        activations_(config.precision == Precision::bf16 ? DType::bf16 : DType::f32),
        conv_supported_(activations_ == DType::f32 || dnnl_offers_bf16()),
        dnnl_{activations_, config.winograd, std::make_shared<Scratch>(device)} {
    require(config.threads >= 1, Exit::usage, "{} compute threads: use at least 1", config.threads);
    require(config.precision != Precision::tf32, Exit::usage, "the CPU supports fp32 and bf16, but not tf32");
    omp_set_num_threads(config.threads);
  }

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override {
    require(conv_supported_, Exit::usage,
            "this processor has no AVX-512, which bf16 convolutions need; use --precision fp32");
    if (desc.input_format.kind == Format::Kind::batch_interleaved && uses_lanes(desc))
      return make_lane_conv2d(workers_, desc);
    return make_dnnl_conv2d(workers_, dnnl_, desc, batch_sizes);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override {
    return make_lane_linear(workers_, activations_, desc, batch_sizes);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dDesc& desc, std::span<const int64_t>) override {
    return make_cpu_pool2d(workers_, activations_, desc);
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormDesc& desc, std::span<const int64_t> batch_sizes) override {
    return make_cpu_batch_norm(workers_, activations_, desc, batch_sizes);
  }
  std::unique_ptr<RunningStats> running_stats(std::span<const RunningStatsSpan> layers) override {
    return make_cpu_running_stats(layers);
  }
  std::unique_ptr<OptimizerOp> optimizer(const OptimizerDesc& desc, std::span<const OptimizerTensor> tensors) override {
    return make_cpu_optimizer(workers_, desc, tensors);
  }

  DType activation_dtype() const override { return activations_; }
  Format input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const override {
    return first && uses_lanes(*first) ? Format::batch_interleaved(choose_lanes(batch_sizes)) : Format{};
  }

  void reorder(const Tensor& from, const Tensor& to) override { ddp::reorder(workers_, from, to); }
  void normalize(const DeviceBatch& batch, const ImageShape& image, const Tensor& x) override {
    ddp::normalize(workers_, batch, image, x);
  }
  void relu(const Tensor& x, const Tensor& y) override { ddp::relu(workers_, x, y); }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    ddp::relu_backward(workers_, y, dy, dx);
  }
  void add(const Tensor& a, const Tensor& b, const Tensor& y) override { ddp::add(workers_, a, b, y); }
  void dropout(const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y) override {
    ddp::dropout(workers_, dropout, x, batch, y);
  }
  void softmax_cross_entropy(const Tensor& logits, const DeviceBatch& batch, float* stats) override {
    ddp::softmax_cross_entropy(workers_, logits, batch, 0, 0, nullptr, stats, Gradient::overwrite);
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const DeviceBatch& batch, float scale, float smoothing,
                                      const Tensor& dlogits, float* stats, Gradient mode) override {
    ddp::softmax_cross_entropy(workers_, logits, batch, scale, smoothing, &dlogits, stats, mode);
  }
  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    ddp::flag_nonfinite(workers_, values, count, mark, flag);
  }
  void copy_or_add(const float* from, float* to, int64_t count, Gradient mode) override {
    ddp::copy_or_add(workers_, from, to, count, mode);
  }
  void to_bf16(const float* from, void* to, int64_t count) override { ddp::to_bf16(workers_, from, to, count); }
  void from_bf16(const void* from, float* to, int64_t count) override { ddp::from_bf16(workers_, from, to, count); }
  void sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) override {
    ddp::sum_of_squares(workers_, values, count, sum, mode);
  }
  void clip_scale(const float* sum, float limit, float* scale) override { ddp::clip_scale(sum, limit, scale); }

 private:
  bool uses_lanes(const Conv2dDesc& desc) const { return activations_ == DType::f32 && !suits_dnnl(desc); }

  Workers workers_;
  DType activations_;
  bool conv_supported_;  // convolutions in the type of activations
  DnnlConfig dnnl_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config) {
  return std::make_unique<CpuOps>(device, config);
}

}  // namespace ddp
