#include "nn/layer.h"

#include <utility>

namespace ddp {
namespace {

class LayerNormLayer final : public Layer {
 public:
  LayerNormLayer(std::unique_ptr<LayerNorm> op, const LayerSpec& spec, int index, const LayerContext& context)
      : Layer(ids_of_layer(context.parameters, index)),
        op_(std::move(op)),
        gradients_(context.memory.gradients),
        scale_(find_parameter(context.parameters, index, Parameter::Role::norm_scale)->offset),
        shift_(find_parameter(context.parameters, index, Parameter::Role::norm_shift)->offset),
        trains_scale_(spec.trains_weight),
        trains_shift_(spec.trains_bias) {}

  Format output_format() const override { return {}; }
  bool saves_input() const override { return true; }
  bool saves_output() const override { return false; }

  void bind(const WeightData& weights) override { op_->bind(weights.f32 + scale_, weights.f32 + shift_); }
  void forward(const LayerValues& v, const Pass&) override { op_->forward(v.x, v.y); }

  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    op_->backward(v.x, g.dy, g.dx, trains_scale_ ? gradients_ + scale_ : nullptr,
                  trains_shift_ ? gradients_ + shift_ : nullptr, pass.mode);
    announce(pass);
  }

 private:
  std::unique_ptr<LayerNorm> op_;
  float* gradients_;
  int64_t scale_, shift_;  // offsets in the flat buffers
  bool trains_scale_, trains_shift_;
};

}  // namespace

std::unique_ptr<Layer> make_layer_norm_layer(const LayerSpec& spec, int index, const LayerContext& context) {
  const LayerNormDesc desc{.input = spec.input,
                           .groups = spec.kind == LayerSpec::Kind::group_norm ? spec.groups : 0,
                           .epsilon = spec.norm.epsilon};
  return std::make_unique<LayerNormLayer>(context.ops.layer_norm(desc, context.batch_sizes), spec, index, context);
}

}  // namespace ddp
