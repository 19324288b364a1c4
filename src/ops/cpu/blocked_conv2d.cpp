#include "ops/cpu/blocked_conv2d.h"

#include "core/error.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/tile_passes.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace ddp {

#ifdef DDP_X86_KERNELS
namespace {

const WinogradKernels& winograd_kernels(DType activations) {
  return activations == DType::bf16 ? kWinogradBf16 : kWinogradF32;
}

const WeightKernels& direct_kernels(DType activations, int64_t kernel) {
  if (activations == DType::f32) return kDirectWeights3F32;
  return kernel == 1 ? kDirectWeights1Bf16 : kDirectWeights3Bf16;
}

bool supported(const Workers& workers, DType activations) {
  if (activations == DType::bf16)
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw");
  return workers.kernels.widest_lanes == 16;
}

class BlockedConv2d final : public Conv2d {
 public:
  BlockedConv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                std::span<const int64_t> batch_sizes, std::unique_ptr<Conv2d> fallback)
      : workers_(workers), config_(config), desc_(desc), fallback_(std::move(fallback)) {
    DDP_EXPECT(!fallback_ || fallback_->output_format() == output_format());
    const DType type = config.activations;
    int64_t most_winograd = 0, most_direct = 0;
    for (const int64_t n : batch_sizes) {
      const OwnPasses own = own_passes(workers, config, desc, n);
      if (own.winograd) most_winograd = std::max(most_winograd, n);
      if (own.weights && !own.winograd) most_direct = std::max(most_direct, n);
    }
    if (most_winograd > 0) {
      forward_.emplace(workers, *config.scratch, winograd_kernels(type), desc, false);
      if (desc.input_gradient) data_.emplace(workers, *config.scratch, winograd_kernels(type), desc, true);
    }
    if (!desc.weight_gradient) return;
    if (most_winograd > 0)
      weights_.emplace(workers, *config.scratch, winograd_kernels(type).weights, desc, most_winograd);
    if (most_direct > 0)
      direct_weights_.emplace(workers, *config.scratch, direct_kernels(type, desc.window.kernel), desc, most_direct);
  }

  Format output_format() const override { return Format::blocked_channels(16); }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    if (forward_) forward_->bind(weight.f32);
    if (data_) data_->bind(weight.f32);
    if (fallback_) fallback_->bind(weight, bias);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    if (!own(x.shape.n).winograd) return fallback().forward(x, y);
    check(x, y);
    forward_->run(x, desc_.bias ? bias_ : nullptr, desc_.relu, y);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    const OwnPasses passes = own(x.shape.n);
    if (!passes.weights) return fallback().backward_weight(x, y, dy, dweight, dbias, mode);
    check(x, dy);
    if (desc_.relu) relu_backward(workers_, y, dy, dy);
    if (sums_bias(desc_)) sum_all_channels(workers_, dy, dbias, mode);
    if (desc_.weight_gradient) (passes.winograd ? weights_ : direct_weights_)->run(x, dy, dweight, mode);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    if (!own(dx.shape.n).winograd) return fallback().backward_input(dy, dx);
    check(dx, dy);
    data_->run(dy, nullptr, false, dx);
  }

 private:
  OwnPasses own(int64_t n) const { return own_passes(workers_, config_, desc_, n); }

  Conv2d& fallback() const {
    require(fallback_ != nullptr, Exit::internal, "a convolution was not planned for this number of samples");
    return *fallback_;
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.dtype == config_.activations && y.dtype == config_.activations);
    DDP_EXPECT(x.format == output_format() && y.format == output_format() && x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == conv2d_output(desc_));
  }

  Workers workers_;
  DnnlConfig config_;
  Conv2dDesc desc_;
  std::unique_ptr<Conv2d> fallback_;
  std::optional<WinogradPass> forward_, data_;
  std::optional<WeightPass> weights_, direct_weights_;
  const float* bias_ = nullptr;
};

}  // namespace

OwnPasses own_passes(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMinOutputs = 256;  // of all samples; few do not pay for reading the transformed weights
  const DType type = config.activations;
  const auto& [kernel, stride, padding, dilation] = desc.window;
  if ((kernel != 3 && kernel != 1) || dilation != 1 || desc.groups != 1 || desc.dense) return {};
  if (desc.input_format != Format::blocked_channels(16) || desc.input.c % kWinogradOutputs != 0 ||
      desc.out_channels % kWinogradOutputs != 0)
    return {};
  const ImageShape out = conv2d_output(desc);
  if (n * out.h * out.w == 0 || !supported(workers, type)) return {};
  const int64_t tile = winograd_kernels(type).tile;
  if (config.winograd && kernel == 3 && stride == 1 &&
      std::max({padding.top, padding.left, padding.bottom, padding.right}) <= 2 &&
      count_tiles(tile, out, n) * tile * tile >= kMinOutputs)
    return {.winograd = true, .weights = true};
  const bool faster = type == DType::bf16 || (kernel == 3 && out.h * out.w < 64);
  return {.winograd = false, .weights = faster && n * out.h * out.w >= kMinOutputs};
}

std::unique_ptr<Conv2d> make_blocked_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                            std::span<const int64_t> batch_sizes, std::unique_ptr<Conv2d> fallback) {
  return std::make_unique<BlockedConv2d>(workers, config, desc, batch_sizes, std::move(fallback));
}
#else
OwnPasses own_passes(const Workers&, const DnnlConfig&, const Conv2dDesc&, int64_t) { return {}; }

std::unique_ptr<Conv2d> make_blocked_conv2d(const Workers&, const DnnlConfig&, const Conv2dDesc&,
                                            std::span<const int64_t>, std::unique_ptr<Conv2d> fallback) {
  return fallback;
}
#endif

}  // namespace ddp
