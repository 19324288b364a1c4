#include "ops/cpu/blocked_conv2d.h"

#include "core/error.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/tile_passes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddp {

#ifdef DDP_X86_KERNELS
namespace {

// Tiles of 7 x 7 are those that are the fastest where the processor multiplies bf16 values too.
std::span<const TileKernels* const> tables_of(const Workers& workers, const DnnlConfig& config) {
  static constexpr const TileKernels *kF32[] = {&kTiles4F32, &kTiles7F32, &kStrided4F32, &kStrided7F32},
                                     *kWide[] = {&kTiles4Wide, &kTiles7Wide, &kStrided4Wide, &kStrided7Wide},
                                     *kRounded[] = {&kTiles4Wide, &kTiles7Rounded, &kStrided4Wide, &kStrided7Wide},
                                     *kBf16[] = {&kTiles2Bf16, &kStrided2Bf16}, *kAmx[] = {&kAmx3};
  if (config.widen && multiplies_bf16(workers)) return kRounded;
  if (config.widen) return kWide;
  if (uses_amx(config)) return kAmx;
  if (config.activations == DType::bf16) return kBf16;
  return kF32;
}

// The kernels for this stride with the fewest products, or null.
const TileKernels* fewest_products(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc) {
  const TileKernels* best = nullptr;
  const auto products = [out = conv2d_output(desc)](const TileKernels* kernels) {
    return kernels->forward.products * count_tiles(kernels->forward.tile, out, 1);
  };
  for (const TileKernels* const kernels : tables_of(workers, config))
    if (kernels->stride == desc.window.stride && (!best || products(kernels) < products(best))) best = kernels;
  return best;
}

const WeightKernels& direct_kernels(const DnnlConfig& config, int64_t kernel) {
  if (config.widen) return kernel == 1 ? kDirectWeights1Wide : kDirectWeights3Wide;
  if (config.activations == DType::f32) return kernel == 1 ? kDirectWeights1F32 : kDirectWeights3F32;
  if (uses_amx(config)) return kernel == 1 ? kAmxWeights1 : kAmxWeights3;
  return kernel == 1 ? kDirectWeights1Bf16 : kDirectWeights3Bf16;
}

// Whether tiles of an image save this share of the products of the direct algorithm, 9 for each of `pixels`, or more.
// They do not if most pixels of a tile are outside the image.
template <class Kernels>
bool saves(double share, const Kernels& kernels, const ImageShape& image, int64_t pixels) {
  return static_cast<double>(kernels.products * count_tiles(kernels.tile, image, 1)) <=
         (1 - share) * static_cast<double>(9 * pixels);
}
constexpr double kSurely = 0.33, kPerhaps = 0.25;  // then tiles are faster, or may be

class BlockedConv2d final : public Conv2d {
 public:
  using Planned = std::map<int64_t, OwnPasses>;  // for each batch size

  // `fallback` may be null if nothing is left for it.
  BlockedConv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, const Planned& planned,
                std::unique_ptr<Conv2d> fallback)
      : workers_(workers),
        scratch_(config.scratch),
        activations_(config.activations),
        desc_(desc),
        planned_(planned),
        fallback_(std::move(fallback)) {
    DDP_EXPECT(!fallback_ || fallback_->output_format() == output_format());
    const OwnPasses own = planned_.rbegin()->second;  // the largest size has all passes of ours
    const TileKernels* const kernels = own.all ? fewest_products(workers, config, desc) : nullptr;
    if (kernels && desc.forward) forward_.emplace(workers, *scratch_, kernels->forward, desc, false);
    if (kernels && desc.input_gradient) data_.emplace(workers, *scratch_, kernels->input_gradient, desc, true);
    if (!desc.weight_gradient) return;
    const ImageShape out = conv2d_output(desc);
    const bool tiled = kernels && saves(kPerhaps, kernels->weights, out, out.h * out.w);
    weights_.emplace(workers, *scratch_, tiled ? kernels->weights : direct_kernels(config, desc.window.kernel), desc,
                     planned_.rbegin()->first);
  }

  Format output_format() const override { return desc_.input_format; }

  SliceSamples slices() const override {
    const OwnPasses own = planned_.rbegin()->second;
    const SliceSamples others = fallback_ ? fallback_->slices() : SliceSamples{1, 1};
    if (!own.all && others.forward == 0) return {};
    const int64_t gradient = desc_.weight_gradient ? weight_slice(desc_, activations_) : 1;
    const int64_t weights = std::max(gradient, weights_ ? weights_->slice() : 1);
    if (!own.all) return {others.forward, std::max(weights, others.backward)};
    return {forward_ ? forward_->slice() : 1, std::max(weights, data_ ? data_->slice() : 1)};
  }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    if (forward_) forward_->bind(weight.f32);
    if (data_) data_->bind(weight.f32);
    if (fallback_) fallback_->bind(weight, bias);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    DDP_EXPECT(desc_.forward);
    if (!own(x.shape.n).all) return fallback_->forward(x, y);
    check(x, y);
    forward_->run(x, desc_.bias ? bias_ : nullptr, desc_.relu, y);
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    if (!own(x.shape.n).weights) return fallback_->backward_weight(x, y, dy, dweight, dbias, mode);
    check(x, dy);
    if (desc_.relu) relu_backward(workers_, y, dy, dy);
    if (sums_bias(desc_)) sum_all_channels(workers_, dy, dbias, mode);
    if (weights_) weights_->run(x, dy, dweight, mode);
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    if (!own(dx.shape.n).all) return fallback_->backward_input(dy, dx);
    check(dx, dy);
    data_->run(dy, nullptr, false, dx);
  }

 private:
  // A slice is computed as the largest batch.
  OwnPasses own(int64_t n) const {
    require(n <= planned_.rbegin()->first, Exit::internal, "a convolution was not planned for {} samples", n);
    const auto planned = planned_.find(n);
    return (planned == planned_.end() ? *planned_.rbegin() : *planned).second;
  }

  void check(const Tensor& x, const Tensor& y) const {
    DDP_EXPECT(x.dtype == activations_ && y.dtype == activations_);
    DDP_EXPECT(x.format == output_format() && y.format == output_format() && x.shape.n == y.shape.n);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == conv2d_output(desc_));
  }

  Workers workers_;
  std::shared_ptr<Scratch> scratch_;
  DType activations_;
  Conv2dDesc desc_;
  Planned planned_;
  std::unique_ptr<Conv2d> fallback_;
  std::optional<TilePass> forward_, data_;
  std::optional<WeightGradientPass> weights_;
  const float* bias_ = nullptr;
};

}  // namespace

bool uses_amx(const DnnlConfig& config) { return config.factors() == DType::bf16 && config.amx && offers_amx(); }

OwnPasses own_passes(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n) {
  constexpr int64_t kMinOutputs = 256;  // of all samples; with fewer, transforms cost more than they save
  const DType type = config.factors();
  const auto& [kernel, stride, padding, dilation] = desc.window;
  if ((kernel != 3 && kernel != 1) || dilation != 1 || desc.groups != 1 || desc.dense) return {};
  const bool amx = uses_amx(config);
  const Format format = amx ? Format{} : Format::blocked_channels(16);
  if (desc.input_format != format || desc.input.c % kTileOutputs != 0 || desc.out_channels % kTileOutputs != 0 ||
      workers.kernels.widest_lanes != 16 || (type == DType::bf16 && !multiplies_bf16(workers)))
    return {};
  const ImageShape out = conv2d_output(desc);
  const int64_t outputs = out.h * out.w;
  const auto suits = [&](const TileKernels* kernels) {
    if (kernel != 3 || !kernels) return false;
    const int64_t tile = kernels->forward.tile;
    if (count_tiles(tile, out, n) * tile * tile < kMinOutputs) return false;
    const int64_t inputs = std::max(outputs, desc.input.h * desc.input.w / (stride * stride));
    const double share = config.own == OwnKernels::all ? kPerhaps : kSurely;
    if (amx ? outputs >= 64 : !config.winograd || !saves(share, kernels->forward, out, outputs)) return false;
    if (!amx && desc.input_gradient && !saves(share, kernels->input_gradient, desc.input, inputs)) return false;
    if (stride > 1) return padding.top == 1 && padding.left == 1;
    return std::max({padding.top, padding.left, padding.bottom, padding.right}) <= 2;
  };
  const bool all = suits(fewest_products(workers, config, desc));
  const bool weights = n * outputs >= kMinOutputs;
  switch (config.own) {
    case OwnKernels::none: return {};
    case OwnKernels::weights: return {.all = false, .weights = weights};
    case OwnKernels::suggested:
      if (!all && type == DType::f32 && (kernel == 1 || outputs >= 64)) return {};
      break;
    case OwnKernels::all: break;
  }
  return {.all = all, .weights = all || weights};
}
#else
bool uses_amx(const DnnlConfig&) { return false; }

OwnPasses own_passes(const Workers&, const DnnlConfig&, const Conv2dDesc&, int64_t) { return {}; }
#endif

std::unique_ptr<Conv2d> make_blocked_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                            std::span<const int64_t> batch_sizes) {
  DDP_EXPECT(!batch_sizes.empty() && std::ranges::min(batch_sizes) > 0);
  DnnlConfig shared = config;
  if (!shared.scratch) shared.scratch = std::make_shared<Scratch>(workers.device);
#ifdef DDP_X86_KERNELS
  BlockedConv2d::Planned planned;
  Conv2dDesc rest = desc;
  std::vector<int64_t> sizes;  // that our kernels do not compute alone
  bool all_weights = true;
  for (const int64_t n : batch_sizes) {
    const OwnPasses own = planned[n] = own_passes(workers, shared, desc, n);
    all_weights &= own.weights;
    const bool others = desc.forward || desc.input_gradient || !own.weights;
    if (!own.all && others) sizes.push_back(n);
  }
  if (planned.rbegin()->second.weights) {
    if (all_weights) rest.weight_gradient = rest.bias_gradient = false;
    auto fallback = sizes.empty() ? nullptr : make_dnnl_conv2d(workers, shared, rest, sizes);
    if (!fallback || fallback->output_format() == desc.input_format)
      return std::make_unique<BlockedConv2d>(workers, shared, desc, planned, std::move(fallback));
  }
#endif
  return make_dnnl_conv2d(workers, shared, desc, batch_sizes);
}

}  // namespace ddp
