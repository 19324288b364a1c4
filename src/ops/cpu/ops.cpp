#include "ops/cpu/ops.h"

#include "core/error.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/lane_linear.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/pool2d.h"
#include "ops/cpu/softmax.h"

#include <omp.h>

namespace ddp {
namespace {

class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, int threads) : workers_{device, threads} {
    require(threads >= 1, Exit::usage, "{} threads cannot compute; give at least 1", threads);
    omp_set_num_threads(threads);
  }

  std::unique_ptr<Conv2d> conv2d(const Conv2dDesc& desc, std::span<const int64_t> batch_sizes) override {
    if (desc.input_format.kind == Format::Kind::lanes && !suits_dnnl(desc)) return make_lane_conv2d(workers_, desc);
    return make_dnnl_conv2d(workers_, desc, batch_sizes);
  }
  std::unique_ptr<Linear> linear(const LinearDesc& desc, std::span<const int64_t> batch_sizes) override {
    return make_lane_linear(workers_, desc, batch_sizes);
  }
  std::unique_ptr<AvgPool2d> avg_pool2d(const AvgPool2dDesc& desc, std::span<const int64_t>) override {
    return make_avg_pool2d(workers_, desc);
  }

  DType activation_dtype() const override { return DType::f32; }
  Format input_format(const Conv2dDesc* first, std::span<const int64_t> batch_sizes) const override {
    return first && !suits_dnnl(*first) ? Format::lanes(choose_lanes(batch_sizes)) : Format{};
  }

  void reorder(const Tensor& from, const Tensor& to) override { ddp::reorder(workers_, from, to); }
  void normalize(const Samples& samples, const ImageShape& image, const Tensor& x) override {
    ddp::normalize(workers_, samples, image, x);
  }
  void relu(const Tensor& x, const Tensor& y) override { ddp::relu(workers_, x, y); }
  void relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) override {
    ddp::relu_backward(workers_, y, dy, dx);
  }
  void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float* stats) override {
    ddp::softmax_cross_entropy(logits, samples, 0, nullptr, stats);
    workers_.device.poll();
  }
  void softmax_cross_entropy_backward(const Tensor& logits, const Samples& samples, float scale, const Tensor& dlogits,
                                      float* stats) override {
    ddp::softmax_cross_entropy(logits, samples, scale, &dlogits, stats);
    workers_.device.poll();
  }
  void flag_nonfinite(const float* values, int64_t count, float mark, float* flag) override {
    ddp::flag_nonfinite(workers_, values, count, mark, flag);
  }
  void sgd(float* w, const float* g, int64_t count, const float* lr, std::span<const float> skip) override {
    ddp::sgd(workers_, w, g, count, lr, skip);
  }

 private:
  Workers workers_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Device& device, int threads) { return std::make_unique<CpuOps>(device, threads); }

}  // namespace ddp
