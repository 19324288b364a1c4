#include "nn/simple_layer.h"

namespace ddp {
namespace {

class LayerScaleLayer : public SimpleLayer {
 public:
  LayerScaleLayer(const LayerSpec& spec, int index, Format format, const LayerContext& context)
      : SimpleLayer(context.ops, format, ids_of_layer(context.parameters, index)),
        scale_(find_parameter(context.parameters, index, Parameter::Role::layer_scale)->offset),
        trains_(spec.trains_weight),
        gradients_(context.memory.gradients) {}

  bool saves_input() const override { return trains_; }
  void bind(const WeightData& weights) override { weights_ = weights.at(scale_).f32; }
  void forward(const LayerValues& v, const Pass&) override { ops_.scale_channels(v.x, weights_, nullptr, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    ops_.scale_channels_backward(v.x, weights_, g.dy, g.dx, trains_ ? gradients_ + scale_ : nullptr, pass.mode);
    announce(pass);
  }

 private:
  int64_t scale_;  // offset in the flat buffers
  bool trains_;
  float* gradients_;
  const float* weights_ = nullptr;
};

}  // namespace

std::unique_ptr<Layer> make_layer_scale_layer(const LayerSpec& spec, int index, Format format,
                                              const LayerContext& context) {
  return std::make_unique<LayerScaleLayer>(spec, index, format, context);
}

}  // namespace ddp
