#include "core/error.h"
#include "device/buffer.h"
#include "nn/layer.h"

#include <algorithm>
#include <utility>

namespace ddp {
namespace {

// The layer writes this rank's sums to ModelMemory::bn_batch_sums; the reducer, or PreciseBn, sums these over ranks
// later. If the layer normalises over the shards of all ranks, it also sums over ranks at once, in forward and in
// backward. It then needs the sums twice, as it does where a later micro-batch adds to them, or where it computes the
// batch in slices; else it reads them where they belong: the gradients before it announces them, because the reducer
// sums them in place.
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
        sliced_(context.slices),
        recomputes_(spec.skip == LayerSpec::kNone && !spec.activation.reads_input()),
        format_(format),
        sums_(context.device, 3 * floats(2)) {}

  Format output_format() const override { return format_; }
  bool saves_input() const override { return true; }
  bool saves_output() const override { return relu_; }
  bool accepts_split_gradient() const override { return true; }
  SliceSamples slices() const override { return sliced_ ? SliceSamples{1, 1} : SliceSamples{}; }
  bool recomputes() const override { return recomputes_; }
  bool has_sums() const override { return true; }

  void bind(const WeightData& weights) override {
    op_->bind(scale_ < 0 ? nullptr : weights.f32 + scale_, weights.f32 + shift_);
  }

  void forward_sum(const LayerValues& v, const Pass& pass) override {
    if (pass.kind == Pass::Kind::evaluate) return;
    float* const sums = in_place(pass) ? batch_sums_ : forward_sums();
    float* const to = pass.first ? sums : slice_sums();
    op_->sum(v.x, pass.running_stats + span_.offset, to);
    if (!pass.first) ops_.copy_or_add(to, sums, 2 * span_.channels, Gradient::add);
  }

  void forward_reduce(const Pass& pass) override {
    const bool empty = pass.batch.size == 0;
    if (pass.kind == Pass::Kind::evaluate || (in_place(pass) && !empty)) return;
    if (empty) device_.zero(forward_sums(), floats(2));
    ops_.copy_or_add(forward_sums(), batch_sums_, 2 * span_.channels, pass.mode);
    if (global(pass)) all_reduce(forward_sums());
  }

  void forward(const LayerValues& v, const Pass& pass) override {
    const float* const mean = pass.running_stats + span_.offset;
    if (pass.kind == Pass::Kind::evaluate) return op_->evaluate(v.x, v.skip, v.y, mean, mean + span_.channels);
    if (pass.first) op_->begin_forward(mean, in_place(pass) ? batch_sums_ : forward_sums(), count(pass));
    op_->forward(v.x, v.skip, v.y);
  }

  void backward_sum(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    const auto [t1, t2] = backward_targets(pass);
    if (pass.first) return op_->backward_sum(v.x, v.y, g.more, g.dy, t1, t2);
    op_->backward_sum(v.x, v.y, g.more, g.dy, slice_sums(), slice_sums() + span_.channels);
    ops_.copy_or_add(slice_sums(), t1, span_.channels, Gradient::add);
    ops_.copy_or_add(slice_sums() + span_.channels, t2, span_.channels, Gradient::add);
  }

  void backward_reduce(const Pass& pass) override {
    const bool empty = pass.batch.size == 0;
    const auto [t1, t2] = backward_targets(pass);
    if (!empty) write_skip_bias(t1, pass);
    if (in_place(pass)) return;
    if (trains_shift_ && !empty) ops_.copy_or_add(t1, gradients_ + shift_, span_.channels, pass.mode);
    if (trains_scale_ && !empty) ops_.copy_or_add(t2, gradients_ + scale_, span_.channels, pass.mode);
    announce(pass);
    if (!input_gradient_ || !global(pass)) return;
    if (empty) device_.zero(backward_sums(), floats(2));
    all_reduce(backward_sums());
  }

  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    const auto [t1, t2] = backward_targets(pass);
    if (g.dx.data && pass.first) op_->begin_backward(t1, t2, count(pass));
    if (g.dx.data) op_->backward(v.x, g.dy, g.dx);
    if (in_place(pass)) announce(pass);
  }

  void backward_empty(const Pass& pass) override {
    if (in_place(pass)) announce(pass);
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
  float* slice_sums() const { return sums_.as<float>() + 4 * span_.channels; }
  // Where the sums t1 and t2 are.
  std::pair<float*, float*> backward_targets(const Pass& pass) const {
    const bool in_gradients = in_place(pass);
    return {in_gradients && trains_shift_ ? gradients_ + shift_ : backward_sums(),
            in_gradients && trains_scale_ ? gradients_ + scale_ : backward_sums() + span_.channels};
  }

  bool global(const Pass& pass) const {
    return config_.all_reduce && (config_.sync_bn || pass.kind == Pass::Kind::precise_bn);
  }
  bool in_place(const Pass& pass) const { return !sliced_ && pass.mode == Gradient::overwrite && !global(pass); }
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
  bool input_gradient_, relu_, sliced_, recomputes_;
  Format format_;
  Buffer sums_;  // [forward sums][backward sums][those of a slice]
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
