#include "nn/layer.h"

#include <utility>

namespace ddp {
namespace {

// It normalises by the running statistics in every pass, communicates nothing and leaves no sums.
class FrozenBatchNormLayer final : public Layer {
 public:
  FrozenBatchNormLayer(std::unique_ptr<BatchNorm> op, const LayerSpec& spec, int index, Format format,
                       const RunningStatsSpan& span, const LayerContext& context)
      : op_(std::move(op)),
        scale_(spec.norm.scale ? find_parameter(context.parameters, index, Parameter::Role::norm_scale)->offset : -1),
        shift_(find_parameter(context.parameters, index, Parameter::Role::norm_shift)->offset),
        span_(span),
        activation_(spec.activation),
        format_(format) {}

  Format output_format() const override { return format_; }
  bool saves_input() const override { return activation_.reads_input(); }
  bool saves_output() const override { return activation_.is_relu(); }
  bool accepts_split_gradient() const override { return true; }

  void bind(const WeightData& weights) override {
    op_->bind(scale_ < 0 ? nullptr : weights.f32 + scale_, weights.f32 + shift_);
  }

  void forward(const LayerValues& v, const Pass& pass) override {
    op_->evaluate(v.x, v.skip, v.y, mean(pass), mean(pass) + span_.channels);
  }

  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    op_->evaluate_backward(v.x, v.y, g.more, g.dy, g.dx, mean(pass), mean(pass) + span_.channels);
  }

 private:
  const float* mean(const Pass& pass) const { return pass.running_stats + span_.offset; }

  std::unique_ptr<BatchNorm> op_;
  int64_t scale_, shift_;  // offsets in the flat buffer; scale_ is -1 without a scale
  RunningStatsSpan span_;
  Activation activation_;
  Format format_;
};

}  // namespace

std::unique_ptr<Layer> make_frozen_batch_norm_layer(const LayerSpec& spec, int index, Format format,
                                                    const RunningStatsSpan& span, const LayerContext& context) {
  const BatchNormDesc desc{.input = spec.input,
                           .format = format,
                           .epsilon = spec.norm.epsilon,
                           .activation = spec.activation,
                           .add = spec.skip != LayerSpec::kNone,
                           .gradients = false};
  return std::make_unique<FrozenBatchNormLayer>(context.ops.batch_norm(desc, context.batch_sizes), spec, index, format,
                                                span, context);
}

}  // namespace ddp
