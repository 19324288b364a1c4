#include "core/error.h"
#include "nn/layer.h"

#include <utility>

namespace ddp {
namespace {

// Conv2d and Linear have the same calls, so one layer serves both.
template <class Op>
class WeightLayer : public Layer {
 public:
  WeightLayer(std::unique_ptr<Op> op, bool relu, int weight_id, std::span<const Parameter> parameters)
      : op_(std::move(op)),
        relu_(relu),
        weight_id_(weight_id),
        weight_(parameters[weight_id].offset),
        bias_(parameters[weight_id + 1].offset) {}

  Format output_format() const override { return op_->output_format(); }
  bool keeps_input() const override { return true; }
  bool keeps_output() const override { return relu_; }
  void bind(const float* weights) override { op_->bind(weights + weight_, weights + bias_); }
  void forward(const Tensor& x, const Tensor& y) override { op_->forward(x, y); }

  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx, float* gradients,
                const Announce& announce) override {
    op_->backward_weight(x, y, dy, gradients + weight_, gradients + bias_, Gradient::overwrite);
    announce(weight_id_);
    announce(weight_id_ + 1);
    if (dx.data) op_->backward_input(dy, dx);
  }

 private:
  std::unique_ptr<Op> op_;
  bool relu_;
  int weight_id_;  // the bias is the next parameter
  int64_t weight_, bias_;
};

class PoolLayer : public Layer {
 public:
  PoolLayer(std::unique_ptr<AvgPool2d> op, Format format) : op_(std::move(op)), format_(format) {}

  Format output_format() const override { return format_; }
  bool keeps_input() const override { return false; }
  bool keeps_output() const override { return false; }
  void forward(const Tensor& x, const Tensor& y) override { op_->forward(x, y); }
  void backward(const Tensor&, const Tensor&, const Tensor& dy, const Tensor& dx, float*, const Announce&) override {
    if (dx.data) op_->backward(dy, dx);
  }

 private:
  std::unique_ptr<AvgPool2d> op_;
  Format format_;
};

class ReluLayer : public Layer {
 public:
  ReluLayer(Ops& ops, Format format) : ops_(ops), format_(format) {}

  Format output_format() const override { return format_; }
  bool keeps_input() const override { return false; }
  bool keeps_output() const override { return true; }
  void forward(const Tensor& x, const Tensor& y) override { ops_.relu(x, y); }
  void backward(const Tensor&, const Tensor& y, const Tensor& dy, const Tensor& dx, float*, const Announce&) override {
    if (dx.data) ops_.relu_backward(y, dy, dx);
  }

 private:
  Ops& ops_;
  Format format_;
};

// Dense and lanes are flattened by looking at them otherwise; a format blocked by channels must be rearranged.
class FlattenLayer : public Layer {
 public:
  explicit FlattenLayer(Ops& ops) : ops_(ops) {}

  Format output_format() const override { return {}; }
  bool keeps_input() const override { return false; }
  bool keeps_output() const override { return false; }
  void forward(const Tensor& x, const Tensor& y) override { ops_.reorder(x, as_dense(y.data, x)); }
  void backward(const Tensor& x, const Tensor&, const Tensor& dy, const Tensor& dx, float*, const Announce&) override {
    if (dx.data) ops_.reorder(as_dense(dy.data, x), dx);
  }

 private:
  static Tensor as_dense(void* data, const Tensor& image) { return {data, image.shape, {}, image.dtype}; }

  Ops& ops_;
};

int weight_id_of(int layer, std::span<const Parameter> parameters) {
  for (size_t id = 0; id < parameters.size(); ++id)
    if (parameters[id].layer == layer && !parameters[id].bias) return static_cast<int>(id);
  fail(Exit::internal, "layer {} has no weight among the parameters", layer);
}

}  // namespace

Conv2dDesc conv2d_desc(const LayerSpec& spec, bool first, Format input_format) {
  return {.input = spec.input,
          .input_format = input_format,
          .out_channels = spec.output.c,
          .window = spec.window,
          .relu = spec.relu,
          .input_gradient = !first};
}

std::unique_ptr<Layer> make_layer(const LayerSpec& spec, int index, bool first, Format format,
                                  std::span<const Parameter> parameters, Ops& ops,
                                  std::span<const int64_t> batch_sizes) {
  const bool rearranged = spec.kind == LayerSpec::Kind::flatten && format.kind == Format::Kind::channels;
  if (spec.view && !rearranged) return nullptr;
  switch (spec.kind) {
    case LayerSpec::Kind::conv2d:
      return std::make_unique<WeightLayer<Conv2d>>(ops.conv2d(conv2d_desc(spec, first, format), batch_sizes), spec.relu,
                                                   weight_id_of(index, parameters), parameters);
    case LayerSpec::Kind::linear: {
      const LinearDesc desc{.in_features = spec.input.c,
                            .out_features = spec.output.c,
                            .input_format = format,
                            .relu = spec.relu,
                            .input_gradient = !first};
      return std::make_unique<WeightLayer<Linear>>(ops.linear(desc, batch_sizes), spec.relu,
                                                   weight_id_of(index, parameters), parameters);
    }
    case LayerSpec::Kind::avg_pool2d: {
      const AvgPool2dDesc desc{spec.input, format, spec.window.kernel, spec.window.stride};
      return std::make_unique<PoolLayer>(ops.avg_pool2d(desc, batch_sizes), format);
    }
    case LayerSpec::Kind::relu: return std::make_unique<ReluLayer>(ops, format);
    case LayerSpec::Kind::flatten: return std::make_unique<FlattenLayer>(ops);
  }
  fail(Exit::internal, "layer {} is of no known kind", index);
}

}  // namespace ddp
