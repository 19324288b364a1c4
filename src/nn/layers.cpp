#include "core/error.h"
#include "device/profile_range.h"
#include "nn/layer.h"
#include "nn/simple_layer.h"

#include <utility>

namespace ddp {
namespace {

// Whether the layer itself computes the gradient of its bias.
bool sums_own_bias(const LayerSpec& spec) {
  return spec.bias && spec.trains_bias && spec.bias_gradient == LayerSpec::BiasGradient::layer;
}

SliceSamples slices_of(const Conv2d& op) { return op.slices(); }
SliceSamples slices_of(const Linear&) { return {}; }

// One class for both Conv2d and Linear, which have the same member functions.
template <class Op>
class WeightLayer : public Layer {
 public:
  // `pooled`: the pool behind computes the gradients of the ReLU and the bias.
  WeightLayer(std::unique_ptr<Op> op, const LayerSpec& spec, bool pooled, int index, const LayerContext& context)
      : Layer(ids_of_layer(context.parameters, index)),
        op_(std::move(op)),
        relu_(spec.has_relu()),
        pooled_(pooled),
        weight_(find_parameter(context.parameters, spec.tied == LayerSpec::kNone ? index : spec.tied,
                               Parameter::Role::weight)
                    ->offset),
        bias_(spec.bias ? find_parameter(context.parameters, index, Parameter::Role::bias)->offset : -1),
        trains_weight_(spec.trains_weight),
        sums_bias_(!pooled && sums_own_bias(spec)),
        gradients_(context.memory.gradients),
        device_(context.device),
        slices_(context.slices ? slices_of(*op_) : SliceSamples{}) {}

  Format output_format() const override { return op_->output_format(); }
  bool saves_input() const override { return trains_weight_; }
  bool saves_output() const override { return relu_ && !pooled_; }
  bool trains() const override { return trains_weight_ || Layer::trains(); }
  SliceSamples slices() const override { return slices_; }
  bool reads_gradient_twice() const override { return trains(); }
  void bind(const WeightData& weights) override {
    op_->bind(weights.at(weight_), bias_ < 0 ? WeightData{} : weights.at(bias_));
  }
  void forward(const LayerValues& v, const Pass&) override { op_->forward(v.x, v.y); }

  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    {
      const ProfileRange range(device_, kWeightGradientRange);
      op_->backward_weight(v.x, pooled_ ? Tensor{} : v.y, g.dy, trains_weight_ ? gradients_ + weight_ : nullptr,
                           sums_bias_ ? gradients_ + bias_ : nullptr, pass.slice_mode(),
                           trains_weight_ && pass.bf16_gradients ? pass.bf16_gradients + weight_ : nullptr);
    }
    if (pass.last) announce(pass);
    if (g.dx.data) op_->backward_input(g.dy, g.dx);
  }

 private:
  std::unique_ptr<Op> op_;
  bool relu_, pooled_;
  int64_t weight_, bias_;  // offsets in the flat buffers; bias_ is -1 without a bias
  bool trains_weight_, sums_bias_;
  float* gradients_;
  Device& device_;
  SliceSamples slices_;
};

class PoolLayer : public Layer {
 public:
  PoolLayer(std::unique_ptr<Pool2d> op, Format format, bool maximum, const ReluBefore& relu, bool sliced)
      : op_(std::move(op)), format_(format), maximum_(maximum), relu_(relu), sliced_(sliced) {}

  Format output_format() const override { return format_; }
  bool saves_input() const override { return maximum_ || relu_.applies; }
  bool saves_output() const override { return maximum_; }
  SliceSamples slices() const override { return sliced_ ? SliceSamples{1, 1} : SliceSamples{}; }
  void forward(const LayerValues& v, const Pass&) override { op_->forward(v.x, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass& pass) override {
    ReluBefore relu = relu_;
    relu.mode = pass.slice_mode();
    if (g.dx.data) op_->backward(v.x, v.y, g.dy, g.dx, relu);
  }

 private:
  std::unique_ptr<Pool2d> op_;
  Format format_;
  bool maximum_;
  ReluBefore relu_;
  bool sliced_;
};

class ReluLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;
  bool saves_output() const override { return true; }
  void forward(const LayerValues& v, const Pass&) override { ops_.relu(v.x, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    if (g.dx.data) ops_.relu_backward(v.y, g.dy, g.dx);
  }
};

// Another function than a ReLU.
class ActivationLayer : public SimpleLayer {
 public:
  ActivationLayer(Ops& ops, Format format, const Activation& activation)
      : SimpleLayer(ops, format), activation_(activation) {}

  bool saves_input() const override { return true; }
  void forward(const LayerValues& v, const Pass&) override { ops_.activation(activation_, v.x, v.y); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    if (g.dx.data) ops_.activation_backward(activation_, v.x, g.dy, g.dx);
  }

 private:
  Activation activation_;
};

class AddLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;
  void forward(const LayerValues& v, const Pass&) override { ops_.add(v.x, v.skip, v.y); }
  void backward(const LayerValues&, const LayerGradients& g, const Pass&) override {
    if (g.dx.data) ops_.reorder(g.dy, g.dx);
  }
};

class DropoutLayer : public SimpleLayer {
 public:
  DropoutLayer(Ops& ops, Format format, const Dropout& dropout) : SimpleLayer(ops, format), dropout_(dropout) {}

  void forward(const LayerValues& v, const Pass& pass) override {
    if (pass.kind == Pass::Kind::train)
      ops_.dropout(dropout_in(pass), v.x, pass.batch, v.y);
    else
      ops_.reorder(v.x, v.y);
  }
  void backward(const LayerValues&, const LayerGradients& g, const Pass& pass) override {
    if (g.dx.data) ops_.dropout(dropout_in(pass), g.dy, pass.batch, g.dx);
  }

 private:
  Dropout dropout_in(const Pass& pass) const {
    Dropout dropout = dropout_;
    dropout.epoch = pass.epoch;
    return dropout;
  }

  Dropout dropout_;
};

// Copies its input to another format. The shape may change too, if the other format is dense.
class ReorderLayer : public SimpleLayer {
 public:
  using SimpleLayer::SimpleLayer;

  void forward(const LayerValues& v, const Pass&) override { ops_.reorder(v.x, as_input(v.y, v.x)); }
  void backward(const LayerValues& v, const LayerGradients& g, const Pass&) override {
    if (g.dx.data) ops_.reorder(as_input(g.dy, v.x), g.dx);
  }

 private:
  static Tensor as_input(const Tensor& other, const Tensor& x) { return {other.data, x.shape, other.format, x.dtype}; }
};

ReluBefore relu_before(const LayerSpec& pool, const LayerContext& context) {
  if (pool.pooled_conv == LayerSpec::kNone || !context.ops.pools_take_relu()) return {};
  const Parameter* const bias = find_parameter(context.parameters, pool.pooled_conv, Parameter::Role::bias);
  const bool sums_bias = bias && bias->trained && !context.config.inference;
  return {.applies = true, .dbias = sums_bias ? context.memory.gradients + bias->offset : nullptr};
}

}  // namespace

Conv2dDesc conv2d_desc(const LayerSpec& spec, bool input_gradient, Format input_format, bool dense) {
  // oneDNN has only its slow reference for one or two channels and a dense output.
  const bool reads_few_channels = spec.input.c <= 2 && spec.groups == 1 && spec.window.dilation == 1;
  return {.input = spec.input,
          .input_format = input_format,
          .out_channels = spec.output.c,
          .window = spec.window,
          .groups = spec.groups,
          .dense = dense && !reads_few_channels,
          .bias = spec.bias,
          .bias_gradient = sums_own_bias(spec),
          .weight_gradient = spec.trains_weight,
          .relu = spec.has_relu(),
          .input_gradient = input_gradient};
}

Format input_format_of(const LayerSpec& spec, Format given, bool dense) {
  using Kind = LayerSpec::Kind;
  switch (spec.kind) {
    case Kind::conv2d:
    case Kind::linear: return dense ? Format{} : given;
    case Kind::concat:  // whole blocks of channels
      return given.kind == Format::Kind::blocked_channels && spec.input.c % given.block != 0 ? Format{} : given;
    case Kind::layer_norm:
    case Kind::group_norm:
    case Kind::embedding:
    case Kind::class_token:
    case Kind::position_embedding:
    case Kind::attention:
    case Kind::first_token: return {};
    default: return given;
  }
}

bool is_dropout(const LayerSpec& spec) {
  return spec.kind == LayerSpec::Kind::dropout || spec.kind == LayerSpec::Kind::stochastic_depth;
}

bool is_reshape(const LayerSpec& spec) {
  return spec.kind == LayerSpec::Kind::flatten || spec.kind == LayerSpec::Kind::tokens;
}

std::unique_ptr<Layer> make_reorder_layer(Ops& ops, Format format) {
  return std::make_unique<ReorderLayer>(ops, format);
}

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, int index, bool input_gradient, Format format,
                                  const LayerContext& context) {
  const bool reordered = is_reshape(spec) && format.kind == Format::Kind::blocked_channels &&
                         (spec.input.h * spec.input.w > 1 || spec.input.c % format.block != 0);
  if (spec.view && !reordered) return nullptr;
  if (context.config.inference && is_dropout(spec)) return nullptr;
  Ops& ops = context.ops;
  switch (spec.kind) {
    case LayerSpec::Kind::conv2d: {
      Conv2dDesc desc = conv2d_desc(spec, input_gradient, format, context.dense);
      if (context.config.inference) desc.weight_gradient = desc.bias_gradient = false;
      return std::make_unique<WeightLayer<Conv2d>>(ops.conv2d(desc, context.batch_sizes), spec,
                                                   spec.pooled && ops.pools_take_relu(), index, context);
    }
    case LayerSpec::Kind::linear: {
      const LinearDesc desc{.in_features = spec.input.c,
                            .out_features = spec.output.c,
                            .input_format = format,
                            .positions = spec.input.h * spec.input.w,
                            .dense = context.dense,
                            .bias = spec.bias,
                            .bias_gradient = sums_own_bias(spec),
                            .weight_gradient = spec.trains_weight,
                            .relu = spec.has_relu(),
                            .input_gradient = input_gradient};
      return std::make_unique<WeightLayer<Linear>>(ops.linear(desc, context.batch_sizes), spec, false, index, context);
    }
    case LayerSpec::Kind::pool2d:
      return std::make_unique<PoolLayer>(ops.pool2d({.kind = spec.pool,
                                                     .input = spec.input,
                                                     .format = format,
                                                     .window = spec.window,
                                                     .out_h = spec.output.h,
                                                     .out_w = spec.output.w},
                                                    context.batch_sizes),
                                         format, spec.pool == Pool2dDesc::Kind::maximum, relu_before(spec, context),
                                         context.slices);
    case LayerSpec::Kind::dropout:
    case LayerSpec::Kind::stochastic_depth:
      return std::make_unique<DropoutLayer>(ops, format,
                                            Dropout{.seed = context.config.seed,
                                                    .layer = static_cast<uint32_t>(index),
                                                    .rate = spec.rate,
                                                    .whole_sample = spec.kind == LayerSpec::Kind::stochastic_depth});
    case LayerSpec::Kind::add: return std::make_unique<AddLayer>(ops, format);
    case LayerSpec::Kind::activation:
      if (spec.activation.is_relu()) return std::make_unique<ReluLayer>(ops, format);
      return std::make_unique<ActivationLayer>(ops, format, spec.activation);
    case LayerSpec::Kind::flatten:
    case LayerSpec::Kind::tokens: return make_reorder_layer(ops, {});
    case LayerSpec::Kind::batch_norm: return make_batch_norm_layer(spec, index, input_gradient, format, context);
    case LayerSpec::Kind::layer_norm:
    case LayerSpec::Kind::group_norm: return make_layer_norm_layer(spec, index, context);
    case LayerSpec::Kind::attention: return make_attention_layer(spec, context);
    case LayerSpec::Kind::concat:
    case LayerSpec::Kind::gate: return make_join_layer(spec, format, context);
    case LayerSpec::Kind::layer_scale: return make_layer_scale_layer(spec, index, format, context);
    case LayerSpec::Kind::embedding:
    case LayerSpec::Kind::class_token:
    case LayerSpec::Kind::position_embedding:
    case LayerSpec::Kind::first_token: return make_token_layer(spec, index, context);
  }
  fail(Exit::internal, "layer {} has a kind that make_layer() does not know ({})", index, name_of(spec.kind));
}

}  // namespace ddp
