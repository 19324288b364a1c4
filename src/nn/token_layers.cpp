#include "nn/simple_layer.h"

namespace ddp {
namespace {

// The tokens of a sample as channels of one position: token t has the channels from t * c on.
Tensor as_channels(const Tensor& tokens) {
  return {tokens.data, {tokens.shape.n, {1, 1, tokens.shape.image.elements()}}, tokens.format, tokens.dtype};
}

// A layer with one tensor of trained values.
class TrainedTokenLayer : public SimpleLayer {
 public:
  TrainedTokenLayer(Parameter::Role role, const LayerSpec& spec, int index, const LayerContext& context)
      : SimpleLayer(context.ops, {}, ids_of_layer(context.parameters, index)),
        offset_(find_parameter(context.parameters, index, role)->offset),
        trains_(spec.trains_weight),
        device_(context.device),
        gradients_(context.memory.gradients) {}

  void bind(const WeightData& weights) override { values_ = weights.at(offset_).f32; }

 protected:
  // The gradient is the sum over samples of the first `count` channels of dy.
  void sum_gradient(const Tensor& dy, int64_t count, const Pass& pass) {
    if (trains_) ops_.sum_channels(dy, 0, count, gradients_ + offset_, pass.mode);
    announce(pass);
  }

  const float* values_ = nullptr;
  int64_t offset_;  // in the flat buffers
  bool trains_;
  Device& device_;
  float* gradients_;
};

class ClassTokenLayer : public TrainedTokenLayer {
 public:
  ClassTokenLayer(const LayerSpec& spec, int index, const LayerContext& context)
      : TrainedTokenLayer(Parameter::Role::class_token, spec, index, context) {}

  void forward(const LayerValues& v, const Pass&) override {
    const int64_t width = v.x.shape.image.c;
    const Tensor x = as_channels(v.x), y = as_channels(v.y);
    ops_.set_channels(values_, y, 0, width);
    ops_.copy_channels(x, 0, y, width, x.shape.image.c);
  }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    const int64_t width = v.x.shape.image.c;
    const Tensor dy = as_channels(g.dy);
    sum_gradient(dy, width, pass);
    if (g.dx.data) ops_.copy_channels(dy, width, as_channels(g.dx), 0, v.x.shape.image.elements());
  }
};

class EmbeddingLayer : public TrainedTokenLayer {
 public:
  EmbeddingLayer(const LayerSpec& spec, int index, const LayerContext& context)
      : TrainedTokenLayer(Parameter::Role::weight, spec, index, context), rows_(spec.rows), is_tied_(spec.is_tied) {}

  void forward(const LayerValues& v, const Pass& pass) override { ops_.embedding(pass.batch, values_, v.y); }
  // The tied linear layer has written its part of the gradient.
  void backward(const LayerValues&, const LayerGradients& g, const Pass& pass) override {
    if (trains_)
      ops_.embedding_backward(pass.batch, g.dy, rows_, gradients_ + offset_, is_tied_ ? Gradient::add : pass.mode);
    announce(pass);
  }

 private:
  int64_t rows_;
  bool is_tied_;
};

class PositionEmbeddingLayer : public TrainedTokenLayer {
 public:
  PositionEmbeddingLayer(const LayerSpec& spec, int index, const LayerContext& context)
      : TrainedTokenLayer(Parameter::Role::position_embedding, spec, index, context),
        unused_(spec.rows > 0 ? (spec.rows - spec.output.h) * spec.output.c : 0) {}

  void forward(const LayerValues& v, const Pass&) override {
    ops_.scale_channels(as_channels(v.x), nullptr, values_, as_channels(v.y));
  }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    const int64_t used = v.x.shape.image.elements();
    if (trains_ && pass.mode == Gradient::overwrite && unused_ > 0)
      device_.zero(gradients_ + offset_ + used, static_cast<size_t>(unused_) * sizeof(float));
    sum_gradient(as_channels(g.dy), used, pass);
    if (g.dx.data) ops_.reorder(g.dy, g.dx);
  }

 private:
  int64_t unused_;  // values of the table behind the last token
};

class FirstTokenLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;

  void forward(const LayerValues& v, const Pass&) override {
    ops_.copy_channels(as_channels(v.x), 0, v.y, 0, v.y.shape.image.c);
  }
  void backward(const LayerValues&, const LayerGradients& g, const Pass&) override {
    if (!g.dx.data) return;
    const int64_t width = g.dy.shape.image.c;
    const Tensor dx = as_channels(g.dx);
    ops_.copy_channels(g.dy, 0, dx, 0, width);
    ops_.set_channels(nullptr, dx, width, dx.shape.image.c - width);
  }
};

}  // namespace

std::unique_ptr<Layer> make_token_layer(const LayerSpec& spec, int index, const LayerContext& context) {
  if (spec.kind == LayerSpec::Kind::embedding) return std::make_unique<EmbeddingLayer>(spec, index, context);
  if (spec.kind == LayerSpec::Kind::class_token) return std::make_unique<ClassTokenLayer>(spec, index, context);
  if (spec.kind == LayerSpec::Kind::position_embedding)
    return std::make_unique<PositionEmbeddingLayer>(spec, index, context);
  return std::make_unique<FirstTokenLayer>(context.ops, Format{});
}

}  // namespace ddp
