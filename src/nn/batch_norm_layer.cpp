#include "core/error.h"
#include "device/buffer.h"
#include "nn/layer.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

// The layer writes this rank's sums to ModelMemory::bn_batch_sums; the reducer, or PreciseBn, sums these over ranks
// later. If the layer normalises over the shards of all ranks, it also sums over ranks at once, in forward and in
// backward. It then needs the sums twice, as it does where a later micro-batch adds to them; else it reads them where
// they belong: the gradients before it announces them, because the reducer sums them in place.
class BatchNormLayer final : public Layer {
 public:
  BatchNormLayer(std::unique_ptr<BatchNorm> op, const LayerSpec& spec, int index, bool input_gradient, Format format,
                 const RunningStatsSpan& span, const LayerContext& context)
      : Layer(ids_of_layer(context.parameters, index)),
        op_(std::move(op)),
        ops_(context.ops),
        device_(context.device),
        config_(context.config),
        gradients_(context.memory.gradients),
        batch_sums_(context.memory.bn_batch_sums ? context.memory.bn_batch_sums + span.offset : nullptr),
        scale_(offset_of(find_parameter(context.parameters, index, Parameter::Role::norm_scale))),
        shift_(offset_of(find_parameter(context.parameters, index, Parameter::Role::norm_shift))),
        trains_scale_(spec.norm.scale && spec.trains_weight),
        trains_shift_(spec.trains_bias),
        skip_bias_(skip_bias(spec, context.parameters)),
        span_(span),
        input_gradient_(input_gradient),
        relu_(spec.has_relu()),
        format_(format),
        sums_(context.device, 2 * floats(2)) {}

  Format output_format() const override { return format_; }
  bool saves_input() const override { return true; }
  bool saves_output() const override { return relu_; }
  bool accepts_split_gradient() const override { return true; }

  void bind(const WeightData& weights) override {
    op_->bind(scale_ < 0 ? nullptr : weights.f32 + scale_, weights.f32 + shift_);
  }

  void forward(const LayerValues& v, const Pass& pass) override {
    const float* const mean = pass.running_stats + span_.offset;
    if (pass.kind == Pass::Kind::evaluate) return op_->evaluate(v.x, v.skip, v.y, mean, mean + span_.channels);
    float* const sums = in_place(pass) ? batch_sums_ : forward_sums();
    op_->sum(v.x, mean, sums);
    if (!in_place(pass)) ops_.copy_or_add(sums, batch_sums_, 2 * span_.channels, pass.mode);
    if (global(pass)) all_reduce(sums);
    op_->forward(v.x, v.skip, v.y, mean, sums, count(pass));
  }

  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    const auto& [dy, more, dx, dskip] = g;
    if (in_place(pass)) {
      float* const t1 = trains_shift_ ? gradients_ + shift_ : backward_sums();
      float* const t2 = trains_scale_ ? gradients_ + scale_ : backward_sums() + span_.channels;
      op_->backward_sum(v.x, v.y, more, dy, t1, t2);
      write_skip_bias(t1, pass);
      if (dx.data) op_->backward(v.x, dy, dx, t1, t2, count(pass));
      announce(pass);
      return;
    }
    float* const t1 = backward_sums();
    float* const t2 = t1 + span_.channels;
    op_->backward_sum(v.x, v.y, more, dy, t1, t2);
    if (trains_shift_) ops_.copy_or_add(t1, gradients_ + shift_, span_.channels, pass.mode);
    write_skip_bias(t1, pass);
    if (trains_scale_) ops_.copy_or_add(t2, gradients_ + scale_, span_.channels, pass.mode);
    announce(pass);
    if (!dx.data) return;
    if (global(pass)) all_reduce(t1);
    op_->backward(v.x, dy, dx, t1, t2, count(pass));
  }

  void forward_empty(const Pass& pass) override {
    if (pass.mode == Gradient::overwrite) device_.zero(batch_sums_, floats(2));
    if (!global(pass)) return;
    device_.zero(forward_sums(), floats(2));
    all_reduce(forward_sums());
  }

  void backward_empty(const Pass& pass) override {
    announce(pass);
    if (!input_gradient_ || !global(pass)) return;
    device_.zero(backward_sums(), floats(2));
    all_reduce(backward_sums());
  }

 private:
  static int64_t offset_of(const Parameter* parameter) { return parameter ? parameter->offset : -1; }

  static int64_t skip_bias(const LayerSpec& spec, std::span<const Parameter> parameters) {
    for (const Parameter& p : trained_of(parameters))
      if (p.layer == spec.skip && p.bias_gradient == LayerSpec::BiasGradient::norm) return p.offset;
    return -1;
  }

  void write_skip_bias(const float* t1, const Pass& pass) const {
    if (skip_bias_ >= 0) ops_.copy_or_add(t1, gradients_ + skip_bias_, span_.channels, pass.mode);
  }

  size_t floats(int64_t for_each_channel) const { return sizeof(float) * for_each_channel * span_.channels; }
  float* forward_sums() const { return sums_.as<float>(); }
  float* backward_sums() const { return sums_.as<float>() + 2 * span_.channels; }

  bool global(const Pass& pass) const {
    return config_.all_reduce && (config_.sync_bn || pass.kind == Pass::Kind::precise_bn);
  }
  bool in_place(const Pass& pass) const { return pass.mode == Gradient::overwrite && !global(pass); }
  void all_reduce(float* sums) const { config_.all_reduce(sums, 2 * span_.channels); }
  float count(const Pass& pass) const {
    return span_.positions * static_cast<float>(global(pass) ? pass.batch.plan.global_size : pass.batch.size);
  }

  std::unique_ptr<BatchNorm> op_;
  Ops& ops_;
  Device& device_;
  const ModelConfig& config_;
  float *gradients_, *batch_sums_;
  int64_t scale_, shift_;  // offsets in the flat buffers; scale_ is -1 without a scale
  bool trains_scale_, trains_shift_;
  int64_t skip_bias_;  // of the bias whose gradient is that of the shift; -1: none
  RunningStatsSpan span_;
  bool input_gradient_, relu_;
  Format format_;
  Buffer sums_;  // [forward sums][backward sums]
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm_layer(const LayerSpec& spec, int index, bool input_gradient, Format format,
                                             const LayerContext& context) {
  const auto norm = std::find_if(context.batch_norms.begin(), context.batch_norms.end(),
                                 [&](const BatchNormState& state) { return state.layer == index; });
  DDP_EXPECT(norm != context.batch_norms.end());
  if (!norm->trained) return make_frozen_batch_norm_layer(spec, index, format, norm->span, context);
  const BatchNormDesc desc{.input = spec.input,
                           .format = format,
                           .epsilon = spec.norm.epsilon,
                           .activation = spec.activation,
                           .add = spec.skip != LayerSpec::kNone,
                           .gradients = !context.config.inference};
  return std::make_unique<BatchNormLayer>(context.ops.batch_norm(desc, context.batch_sizes), spec, index,
                                          input_gradient, format, norm->span, context);
}

}  // namespace ddp
