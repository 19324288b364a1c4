#include "app/commands/export/onnx_model.h"

#include "app/commands/export/onnx_blocks.h"
#include "app/commands/export/onnx_graph.h"
#include "app/commands/export/onnx_layout.h"
#include "core/error.h"
#include "nn/token_network.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using LayerKind = LayerSpec::Kind;

using Layout = GraphValue::Layout;

class GraphBuilder {
 public:
  GraphBuilder(const ExportedNetwork& exported, OnnxGraph& graph) : exported_(exported), graph_(graph) {}

  void add(const std::optional<PixelScale>& bytes) {
    const Network& network = exported_.network;
    for (const LayerSpec& l : network.layers())
      require(l.name != "input" && l.name != "logits" && !l.name.starts_with("pixels."), Exit::model,
              "model {}: layer {} has a name that the ONNX graph needs; give it another one", network.name(), l.name);
    for (const NamedTensor& tensor : exported_.tensors)
      if (!tensor.integer) graph_.initializer(tensor.name, tensor.shape, tensor.values);
    image_ = {"input", network.input()};
    if (network.reads_tokens()) return add_of_tokens();
    if (bytes)
      normalize(*bytes);
    else
      graph_.input("input", onnx::TensorProto::FLOAT,
                   std::array{network.input().c, network.input().h, network.input().w});
    for (size_t i = 0; i < network.layers().size(); ++i) values_.push_back(value_of(i));
    const GraphValue result = to_flat(graph_, values_.empty() ? image_ : values_.back(), "features");
    graph_.rename_last(result.name, "logits");
    graph_.output("logits", onnx::TensorProto::FLOAT, std::array{network.output().elements()});
  }

 private:
  void add_of_tokens() {
    const Network& network = exported_.network;
    const int64_t length = is_causal(network) ? OnnxGraph::kFree : network.input().h;
    graph_.input("input", onnx::TensorProto::INT64, std::array{length});
    length_ = add_onnx_length(graph_, "input");
    if (std::ranges::any_of(network.layers(), &LayerSpec::causal)) mask_ = add_onnx_causal_mask(graph_, length_);
    for (size_t i = 0; i < network.layers().size(); ++i) values_.push_back(value_of(i));
    const GraphValue result = to_tokens(graph_, values_.back(), "features");
    graph_.rename_last(result.name, "logits");
    graph_.output("logits", onnx::TensorProto::FLOAT, std::array{length, network.output().c});
  }

  void normalize(const PixelScale& pixels) {
    const ImageShape image = exported_.network.input();
    graph_.input("input", onnx::TensorProto::UINT8, std::array{image.h, image.w, image.c});
    const auto for_each_channel = [&](const char* name, const std::array<float, 3>& values) {
      graph_.initializer(name, std::array{image.c, int64_t{1}, int64_t{1}},
                         std::span(values).first(static_cast<size_t>(image.c)));
    };
    for_each_channel("pixels.scale", pixels.scale);
    for_each_channel("pixels.shift", pixels.shift);
    OnnxGraph::set(graph_.node("pixels.cast", "Cast", {"input"}), "to", int64_t{onnx::TensorProto::FLOAT});
    graph_.transpose("pixels.transpose", "pixels.cast.output", {0, 3, 1, 2});
    graph_.node("pixels.mul", "Mul", {"pixels.transpose.output", "pixels.scale"});
    image_.name = graph_.add("pixels.add", "Add", {"pixels.mul.output", "pixels.shift"});
  }

  static void set_window(onnx::NodeProto& to, const Window2d& window) {
    const auto& [top, left, bottom, right] = window.padding;
    OnnxGraph::set(to, "kernel_shape", std::array{window.kernel, window.kernel});
    OnnxGraph::set(to, "strides", std::array{window.stride, window.stride});
    OnnxGraph::set(to, "pads", std::array{top, left, bottom, right});
  }

  const GraphValue& at(int layer) const {
    return layer == LayerSpec::kImage ? image_ : values_[static_cast<size_t>(layer)];
  }

  GraphValue image(const LayerSpec& layer) {
    const GraphValue& value = at(layer.from);
    require(!value.flat(), Exit::model,
            "model {}: layer {} ({}) needs an image, but a flatten is before it; ONNX and "
            "PyTorch have no such layer",
            exported_.network.name(), layer.name, name_of(layer.kind));
    return to_channels_first(graph_, value, layer.name);
  }

  // The second input of a sum; a sum that is fused into a batch norm has it there.
  const GraphValue& skip(const LayerSpec& sum) const {
    const auto& layers = exported_.network.layers();
    return at(sum.skip != LayerSpec::kNone ? sum.skip : layers[static_cast<size_t>(sum.from)].skip);
  }

  // Adds the nodes of a layer. An activation or a sum is a layer of its own, also where our kernels fuse it.
  GraphValue value_of(size_t index) {
    const LayerSpec& l = exported_.network.layers()[index];
    const GraphValue& from = at(l.from);
    const auto result = [&](const std::string& name, Layout layout) { return GraphValue{name, l.output, layout}; };
    switch (l.kind) {
      case LayerKind::conv2d: return result(add_conv(l), Layout::channels_first);
      case LayerKind::linear: return add_linear(l);
      case LayerKind::batch_norm: return exported_.folded[index] ? from : add_batch_norm(l);
      case LayerKind::layer_norm: {
        const GraphValue x = to_channels_last(graph_, from, l.name);
        graph_.need(17);
        onnx::NodeProto& node =
            graph_.node(l.name, "LayerNormalization", {x.name, l.name + ".weight", l.name + ".bias"});
        OnnxGraph::set(node, "axis", int64_t{-1});
        OnnxGraph::set(node, "epsilon", l.norm.epsilon);
        return result(node.output(0), x.layout);
      }
      case LayerKind::group_norm: return result(add_onnx_group_norm(graph_, l, image(l).name), Layout::channels_first);
      case LayerKind::activation: return result(add_onnx_activation(graph_, l, from.name), from.layout);
      case LayerKind::pool2d: return add_pool(l);
      case LayerKind::flatten: return to_flat(graph_, from, l.name);
      case LayerKind::tokens: return to_tokens(graph_, from, l.name);
      case LayerKind::dropout:
      case LayerKind::stochastic_depth: return from;  // none in inference
      case LayerKind::add: {
        const GraphValue& other = skip(l);
        const Layout layout = other.flat() ? Layout::flat : from.layout;
        const GraphValue a = to_layout(graph_, layout, from, l.name + ".flatten"),
                         b = to_layout(graph_, layout, other, l.name + ".flatten");
        return result(graph_.add(l.name, "Add", {a.name, b.name}), layout);
      }
      case LayerKind::concat: return add_concat(l);
      case LayerKind::gate: return add_gate(l);
      case LayerKind::layer_scale: {
        // PyTorch's tensor has the shape (c, 1, 1).
        const bool first = from.layout == Layout::channels_first;
        const std::string scale = first ? l.name : graph_.reshape(l.name + ".scale", l.name, {l.output.c});
        return result(graph_.add(l.name, "Mul", {from.name, scale}), from.layout);
      }
      case LayerKind::embedding:
        return result(graph_.add(l.name, "Gather", {l.name + ".weight", from.name}), Layout::tokens);
      case LayerKind::class_token:
        return result(add_onnx_class_token(graph_, l, to_tokens(graph_, from, l.name).name), Layout::tokens);
      case LayerKind::position_embedding: return add_positions(l);
      case LayerKind::attention:
        return result(add_onnx_attention(graph_, l, to_tokens(graph_, from, l.name).name, mask_), Layout::tokens);
      case LayerKind::first_token: {
        const GraphValue x = to_tokens(graph_, from, l.name);
        const std::string first = graph_.index(l.name + ".index", 0);
        onnx::NodeProto& node = graph_.node(l.name, "Gather", {x.name, first});
        OnnxGraph::set(node, "axis", int64_t{1});
        return result(node.output(0), Layout::flat);
      }
    }
    return from;
  }

  std::string add_conv(const LayerSpec& l) {
    const GraphValue x = image(l);
    onnx::NodeProto& conv = graph_.node(l.name, "Conv", {x.name, l.name + ".weight"});
    if (exported_.find(l.name + ".bias")) conv.add_input(l.name + ".bias");
    set_window(conv, l.window);
    if (l.window.dilation > 1) OnnxGraph::set(conv, "dilations", std::array{l.window.dilation, l.window.dilation});
    if (l.groups > 1) OnnxGraph::set(conv, "group", l.groups);
    return conv.output(0);
  }

  // A table with a row for each position has more rows than the sequence.
  GraphValue add_positions(const LayerSpec& l) {
    const GraphValue x = to_tokens(graph_, at(l.from), l.name);
    const bool has_rows = l.rows > 0;
    std::string table = has_rows ? l.name + ".weight" : l.name;
    if (has_rows || !length_.empty()) {
      const std::string length = length_.empty() ? graph_.constant(l.name + ".length", std::array{x.shape.h}) : length_;
      table = add_onnx_positions(graph_, table, length, has_rows ? 0 : 1);
    }
    return {graph_.add(l.name, "Add", {x.name, table}), l.output, Layout::tokens};
  }

  // With several positions, a product with the transposed weight at each of them.
  GraphValue add_linear(const LayerSpec& l) {
    const std::string separator = l.joined_names ? "_" : ".";
    const auto& layers = exported_.network.layers();
    const std::string weight = (l.tied == LayerSpec::kNone ? l : layers[static_cast<size_t>(l.tied)]).name + separator +
                               "weight",
                      bias = l.name + separator + "bias";
    const bool has_bias = exported_.find(bias);
    if (l.input.h * l.input.w == 1 && length_.empty()) {
      const GraphValue features = to_flat(graph_, at(l.from), l.name + ".flatten");
      onnx::NodeProto& gemm = graph_.node(l.name, "Gemm", {features.name, weight});
      if (has_bias) gemm.add_input(bias);
      OnnxGraph::set(gemm, "transB", int64_t{l.transposed ? 0 : 1});
      return {gemm.output(0), l.output, Layout::flat};
    }
    const GraphValue x = to_channels_last(graph_, at(l.from), l.name);
    const std::string columns = l.transposed ? weight : graph_.transpose(l.name + ".columns", weight, {1, 0});
    const std::string product = graph_.add(has_bias ? l.name + ".product" : l.name, "MatMul", {x.name, columns});
    return {has_bias ? graph_.add(l.name, "Add", {product, bias}) : product, l.output, x.layout};
  }

  GraphValue add_batch_norm(const LayerSpec& l) {
    const GraphValue& from = at(l.from);
    const GraphValue x = from.flat() ? from : to_channels_first(graph_, from, l.name);
    const auto tensor = [&](const char* part) { return l.name + part; };
    onnx::NodeProto& norm =
        graph_.node(l.name, "BatchNormalization",
                    {x.name, tensor(".weight"), tensor(".bias"), tensor(".running_mean"), tensor(".running_var")});
    OnnxGraph::set(norm, "epsilon", l.norm.epsilon);
    return {norm.output(0), l.output, x.layout};
  }

  GraphValue add_pool(const LayerSpec& l) {
    const GraphValue x = image(l);
    const auto pooled = [&](const char* op) -> onnx::NodeProto& { return graph_.node(l.name, op, {x.name}); };
    const auto with_window = [&](const char* op, const Window2d& window) {
      onnx::NodeProto& node = pooled(op);
      set_window(node, window);
      return node.output(0);
    };
    const auto average = [&]() -> std::string {
      const ImageShape in = l.input, out = l.output;
      if (out.h == 1 && out.w == 1) return pooled("GlobalAveragePool").output(0);
      if (out == in) return x.name;
      require(in.h % out.h == 0 && in.w % out.w == 0, Exit::model,
              "model {}: layer {} (adaptive average pool) has windows of several sizes from {}x{} to {}x{} positions, "
              "which ONNX does not have; use an image size that the output divides",
              exported_.network.name(), l.name, in.h, in.w, out.h, out.w);
      onnx::NodeProto& node = pooled("AveragePool");
      const std::array window{in.h / out.h, in.w / out.w};
      OnnxGraph::set(node, "kernel_shape", window);
      OnnxGraph::set(node, "strides", window);
      OnnxGraph::set(node, "pads", std::array<int64_t, 4>{});
      return node.output(0);
    };
    switch (l.pool) {
      case Pool2dDesc::Kind::average: return {with_window("AveragePool", l.window), l.output};
      case Pool2dDesc::Kind::maximum: return {with_window("MaxPool", l.window), l.output};
      case Pool2dDesc::Kind::global_average: return {pooled("GlobalAveragePool").output(0), l.output};
      case Pool2dDesc::Kind::adaptive_average: break;
    }
    return {average(), l.output};
  }

  GraphValue add_concat(const LayerSpec& l) {
    const Layout layout = at(l.from).layout;
    const GraphValue a = at(l.from), b = to_layout(graph_, layout, at(l.skip), l.name + ".skip");
    onnx::NodeProto& node = graph_.node(l.name, "Concat", {a.name, b.name});
    const bool first = layout == Layout::channels_first || layout == Layout::flat;
    OnnxGraph::set(node, "axis", int64_t{first ? 1 : -1});
    return {node.output(0), l.output, layout};
  }

  // The factors get the number of dimensions of the value.
  GraphValue add_gate(const LayerSpec& l) {
    const GraphValue x = at(l.from);
    GraphValue s = at(l.skip);
    if (x.layout == Layout::tokens && s.flat())
      s.name = graph_.reshape(l.name + ".factors", s.name, {0, 1, s.shape.c});
    else
      s = to_layout(graph_, x.layout, s, l.name + ".skip");
    return {graph_.add(l.name, "Mul", {x.name, s.name}), l.output, x.layout};
  }

  const ExportedNetwork& exported_;
  OnnxGraph& graph_;
  GraphValue image_;
  std::vector<GraphValue> values_;  // of each layer
  std::string length_, mask_;       // of a network that reads tokens: as in onnx_blocks.h
};

}  // namespace

void require_onnx_holds(int64_t bytes) {
  require(bytes <= std::numeric_limits<int32_t>::max(), Exit::usage,
          "the ONNX file would have {:.1f} GiB, and such a file has less than 2; use --format safetensors",
          static_cast<double>(bytes) / (1 << 30));
}

std::string onnx_model(const ExportedNetwork& exported, const std::optional<PixelScale>& bytes,
                       const Metadata& metadata) {
  onnx::ModelProto model;
  model.set_producer_name("ddp_train");
  model.set_producer_version(DDP_VERSION);
  model.mutable_graph()->set_name(exported.network.name());
  OnnxGraph graph(*model.mutable_graph());
  GraphBuilder(exported, graph).add(bytes);
  model.set_ir_version(graph.operator_set() < 15 ? 7 : 8);
  model.add_opset_import()->set_version(graph.operator_set());
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  require_onnx_holds(static_cast<int64_t>(model.ByteSizeLong()));
  return model.SerializeAsString();
}

}  // namespace ddp
