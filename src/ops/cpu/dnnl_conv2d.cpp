#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/conv2d.h"
#include "ops/cpu/dnnl_execution.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/instruction_set.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using dnnl::memory;
using onednn::ConvShape;
using onednn::describe;
using onednn::Execution;
using onednn::PackedWeights;
using Tag = memory::format_tag;

enum SlicePass { kForward, kWeights, kData };

// The number of samples in a slice of a large batch, a power of two. A pass runs in slices, so that data stays in the
// cache and the device is polled between slices. SliceSamples are larger for the weight gradient, where each slice adds
// a whole weight tensor, and for Winograd, where each slice transforms the weights.
int64_t slice_size(const Conv2dDesc& desc, DType type, SlicePass pass, bool winograd) {
  constexpr int64_t kPositions = 8192, kMultiplications = int64_t{1} << 28, kBytes = 2 << 20;
  if (pass == kWeights && !winograd) return weight_slice(desc, type);
  const ImageShape out = conv2d_output(desc);
  const int64_t positions = out.h * out.w, taps = desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const int64_t bytes = (desc.input.elements() + out.elements()) * static_cast<int64_t>(size_of(type));
  const int64_t samples =
      winograd ? kPositions / positions : std::min(kMultiplications / (positions * taps * out.c), kBytes / bytes);
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(samples, 1))));
}

class DnnlConv2d final : public Conv2d {
 public:
  DnnlConv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
             std::span<const int64_t> batch_sizes)
      : config_(config),
        desc_(desc),
        out_(conv2d_output(desc)),
        context_(make_context(workers, *config_.scratch)),
        dense_(weight_dims(desc), memory::data_type::f32, desc.groups > 1 ? Tag::gohwi : Tag::ohwi) {
    DDP_EXPECT(!batch_sizes.empty());
    if (!desc.weight_gradient && sums_bias(desc)) unused_dweight_ = Buffer(workers.device, dense_.get_size());
    const int64_t largest = *std::max_element(batch_sizes.begin(), batch_sizes.end());
    output_format_ = preferred_output(largest);
    winograd_ = config.winograd && config.activations == DType::f32 && !desc.dense && suits_winograd(desc, largest) &&
                offers_winograd();
    for (const int64_t n : batch_sizes) {
      if (n == 0) continue;
      for (const SlicePass pass : {kForward, kWeights, kData}) {
        if (pass == kForward && !desc.forward) continue;
        if (pass == kData && !desc.input_gradient) continue;
        if (pass == kWeights && !desc.weight_gradient && !sums_bias(desc)) continue;
        each_slice(n, pass, [&](int64_t, int64_t samples, bool winograd) {
          const Key key{pass, samples, winograd};
          if (!executions_.contains(key)) executions_.emplace(key, plan(key));
        });
      }
    }
  }

  Format output_format() const override { return output_format_; }

  SliceSamples slices() const override {
    // A batch decides on Winograd's algorithm as a whole.
    if (winograd_ || desc_.input_format.kind == Format::Kind::batch_interleaved) return {};
    const auto size = [&](SlicePass pass) { return slice_size(desc_, config_.factors(), pass, false); };
    return {size(kForward), std::max(size(kWeights), size(kData))};
  }

  void bind(const WeightData& weight, const WeightData& bias) override {
    bias_ = bias.f32;
    for (PackedWeights& packed : packed_) packed.bind(weight.f32);
  }

  void forward(const Tensor& x, const Tensor& y) override {
    check(x, y, kForward);
    each_slice(x.shape.n, kForward, [&](int64_t first, int64_t samples, bool winograd) {
      Execution& execution = executions_.at({kForward, samples, winograd});
      if (desc_.bias)
        execution.run({{DNNL_ARG_SRC, at(x, first)}, {DNNL_ARG_DST, at(y, first)}, {DNNL_ARG_BIAS, bias_}});
      else
        execution.run({{DNNL_ARG_SRC, at(x, first)}, {DNNL_ARG_DST, at(y, first)}});
      if (!desc_.relu) return;
      const Tensor slice{at(y, first), {samples, out_}, y.format, y.dtype};
      relu(context_.workers, slice, slice);
    });
  }

  void backward_weight(const Tensor& x, const Tensor& y, const Tensor& dy, float* dweight, float* dbias, Gradient mode,
                       uint16_t*) override {
    check(x, dy, kWeights);
    if (desc_.relu) relu_backward(context_.workers, y, dy, dy);
    if (!desc_.weight_gradient && !sums_bias(desc_)) return;
    if (!dweight) dweight = unused_dweight_.as<float>();
    each_slice(x.shape.n, kWeights, [&](int64_t first, int64_t samples, bool winograd) {
      Execution& execution = executions_.at({kWeights, samples, winograd});
      const Execution::Address src{DNNL_ARG_SRC, at(x, first)}, diff{DNNL_ARG_DIFF_DST, at(dy, first)};
      const Gradient slice_mode = first == 0 ? mode : Gradient::add;
      if (sums_bias(desc_))
        execution.run({src, diff, {DNNL_ARG_DIFF_WEIGHTS, dweight}, {DNNL_ARG_DIFF_BIAS, dbias}}, slice_mode);
      else
        execution.run({src, diff, {DNNL_ARG_DIFF_WEIGHTS, dweight}}, slice_mode);
    });
  }

  void backward_input(const Tensor& dy, const Tensor& dx) override {
    DDP_EXPECT(desc_.input_gradient);
    check(dx, dy, kData);
    each_slice(dx.shape.n, kData, [&](int64_t first, int64_t samples, bool winograd) {
      executions_.at({kData, samples, winograd})
          .run({{DNNL_ARG_DIFF_DST, at(dy, first)}, {DNNL_ARG_DIFF_SRC, at(dx, first)}});
    });
  }

 private:
  struct Key {
    SlicePass pass;
    int64_t samples;
    bool winograd;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  static memory::dims weight_dims(const Conv2dDesc& d) {
    const int64_t k = d.window.kernel;
    if (d.groups == 1) return {d.out_channels, d.input.c, k, k};
    return {d.groups, d.out_channels / d.groups, d.input.c / d.groups, k, k};
  }

  static onednn::Context make_context(const Workers& workers, Scratch& scratch) {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return {workers, engine, dnnl::stream(engine), scratch};
  }

  // Calls slice(first sample, samples, winograd) for the slices of n samples.
  template <class F>
  void each_slice(int64_t n, SlicePass pass, F&& slice) const {
    const bool winograd = winograd_ && suits_winograd(desc_, n);
    const bool whole = desc_.input_format.kind == Format::Kind::batch_interleaved;
    const int64_t most = whole ? n : slice_size(desc_, config_.factors(), pass, winograd);
    for (int64_t first = 0; first < n; first += most) slice(first, std::min(most, n - first), winograd);
  }

  void check(const Tensor& x, const Tensor& y, SlicePass pass) const {
    DDP_EXPECT(x.format == desc_.input_format && y.format == output_format_);
    DDP_EXPECT(x.dtype == config_.activations && y.dtype == config_.activations);
    DDP_EXPECT(x.shape.image == desc_.input && y.shape.image == out_ && x.shape.n == y.shape.n);
    if (pass == kWeights && !desc_.weight_gradient && !sums_bias(desc_)) return;
    each_slice(x.shape.n, pass, [&](int64_t, int64_t samples, bool winograd) {
      require(executions_.contains({pass, samples, winograd}), Exit::internal,
              "a convolution was not planned for {} samples", x.shape.n);
    });
  }

  // Address of the sample `first`. In a batch-interleaved format, it must be the first sample of a block.
  static void* at(const Tensor& t, int64_t first) {
    return element(t, stored_elements({first, t.shape.image}, t.format));
  }

  memory::desc any(const memory::dims& dims, DType dtype) const {
    return {dims, dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32, Tag::any};
  }

  // All weights have the format "any": oneDNN selects it. So have activations, unless the convolution is dense. Callers
  // replace it where the format is given.
  ConvShape shape(int64_t n, SlicePass pass, bool winograd) const {
    const auto& [kernel, stride, padding, dilation] = desc_.window;
    const DType factors = config_.factors(), weights = pass == kWeights ? DType::f32 : factors;
    const bool bias = pass == kWeights ? sums_bias(desc_) : desc_.bias;
    return {
        .algorithm = winograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct,
        .src = desc_.dense ? describe_x(n, factors) : any({n, desc_.input.c, desc_.input.h, desc_.input.w}, factors),
        .weights = any(weight_dims(desc_), weights),
        .bias = bias ? memory::desc({out_.c}, memory::data_type::f32, Tag::x) : memory::desc(),
        .dst = desc_.dense ? describe_y(n, factors) : any({n, out_.c, out_.h, out_.w}, factors),
        .strides = {stride, stride},
        .dilates = {dilation - 1, dilation - 1},
        .padding_l = {padding.top, padding.left},
        .padding_r = {padding.bottom, padding.right}};
  }

  // No fused ReLU: oneDNN's changes NaN to 0.
  dnnl::primitive_attr attributes() const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }

  bool offers_winograd() const {
    try {
      onednn::forward(context_.engine, shape(1, kForward, true), attributes());
      return true;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      return false;
    }
  }

  Format preferred_output(int64_t n) const {
    if (desc_.dense) return {};
    const auto chosen = onednn::forward(context_.engine, shape(n, kForward, false), attributes()).dst_desc();
    for (const Format format : {Format::blocked_channels(16), Format::blocked_channels(8)})
      if (chosen == describe({n, out_}, format, config_.factors())) return format;
    return {};
  }

  // Uses the direct algorithm if oneDNN does not implement Winograd's algorithm for this convolution.
  Execution plan(const Key& key) {
    const auto planned = [&](bool winograd) {
      switch (key.pass) {
        case kForward: return plan_forward(key.samples, winograd);
        case kWeights: return plan_weights(key.samples, winograd);
        case kData: break;
      }
      return plan_data(key.samples, winograd);
    };
    if (!key.winograd) return planned(false);
    try {
      return planned(true);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
      return planned(false);
    }
  }

  Execution plan_forward(int64_t n, bool winograd) {
    const auto x = describe_x(n), y = describe_y(n);
    ConvShape s = shape(n, kForward, winograd);
    s.dst = describe_y(n, config_.factors());
    const auto p = onednn::forward(context_.engine, s, attributes());
    Execution execution(context_, dnnl::convolution_forward(p), p.scratchpad_desc());
    execution.input(DNNL_ARG_SRC, x, p.src_desc());
    execution.weights(DNNL_ARG_WEIGHTS, packed(p.weights_desc()));
    if (desc_.bias) execution.input(DNNL_ARG_BIAS, s.bias, s.bias);
    execution.output(DNNL_ARG_DST, y, p.dst_desc());
    return execution;
  }

  Execution plan_weights(int64_t n, bool winograd) {
    const ConvShape s = shape(n, kWeights, winograd);
    const auto p = onednn::backward_weights(context_.engine, s, attributes(), hint(n, winograd));
    Execution execution(context_, dnnl::convolution_backward_weights(p), p.scratchpad_desc());
    execution.input(DNNL_ARG_SRC, describe_x(n), p.src_desc());
    execution.input(DNNL_ARG_DIFF_DST, describe_y(n), p.diff_dst_desc());
    execution.gradient(DNNL_ARG_DIFF_WEIGHTS, dense_, p.diff_weights_desc());
    if (sums_bias(desc_)) execution.gradient(DNNL_ARG_DIFF_BIAS, s.bias, s.bias);
    return execution;
  }

  Execution plan_data(int64_t n, bool winograd) {
    const auto p = onednn::backward_data(context_.engine, shape(n, kData, winograd), attributes(), hint(n, winograd));
    Execution execution(context_, dnnl::convolution_backward_data(p), p.scratchpad_desc());
    execution.input(DNNL_ARG_DIFF_DST, describe_y(n), p.diff_dst_desc());
    execution.weights(DNNL_ARG_WEIGHTS, packed(p.weights_desc()));
    execution.output(DNNL_ARG_DIFF_SRC, describe_x(n), p.diff_src_desc());
    return execution;
  }

  dnnl::convolution_forward::primitive_desc hint(int64_t n, bool winograd) const {
    return onednn::forward(context_.engine, shape(n, kForward, winograd), attributes());
  }

  memory::desc describe_x(int64_t n, DType type) const { return describe({n, desc_.input}, desc_.input_format, type); }
  memory::desc describe_y(int64_t n, DType type) const { return describe({n, out_}, output_format_, type); }
  memory::desc describe_x(int64_t n) const { return describe_x(n, config_.activations); }
  memory::desc describe_y(int64_t n) const { return describe_y(n, config_.activations); }

  PackedWeights& packed(const memory::desc& wanted) {
    for (PackedWeights& known : packed_)
      if (known.desc() == wanted) return known;
    return packed_.emplace_back(context_, dense_, wanted);
  }

  DnnlConfig config_;
  Conv2dDesc desc_;
  ImageShape out_;
  Format output_format_;
  bool winograd_ = false;  // whether large batches use Winograd's algorithm
  onednn::Context context_;
  memory::desc dense_;  // of the weights and their gradient
  std::deque<PackedWeights> packed_;
  std::map<Key, Execution> executions_;
  Buffer unused_dweight_;  // oneDNN has no sum for the bias alone
  const float* bias_ = nullptr;
};

}  // namespace

bool multiplies_bf16(const Workers& workers) {
  // Each set has the bits of those that it contains.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return workers.kernels.widest_lanes == 16 &&
         (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

bool offers_amx() {
  static const bool offered = [] {
    const auto isa = dnnl::get_effective_cpu_isa();
#if DNNL_VERSION_MAJOR >= 3
    if (isa == dnnl::cpu_isa::avx512_core_amx_fp16) return has_amx();
#endif
    return isa == dnnl::cpu_isa::avx512_core_amx && has_amx();
  }();
  return offered;
}

std::unique_ptr<Conv2d> make_dnnl_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                         std::span<const int64_t> batch_sizes) {
  DnnlConfig shared = config;
  if (!shared.scratch) shared.scratch = std::make_shared<Scratch>(workers.device);
  return std::make_unique<DnnlConv2d>(workers, shared, desc, batch_sizes);
}

}  // namespace ddp
