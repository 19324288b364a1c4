#include "app/commands/export/onnx_blocks.h"

#include "app/commands/export/onnx_model.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace ddp {
namespace {

std::string add_hard_sigmoid(OnnxGraph& graph, const std::string& name, const std::string& x) {
  onnx::NodeProto& node = graph.node(name, "HardSigmoid", {x});
  OnnxGraph::set(node, "alpha", 1.0f / 6);
  OnnxGraph::set(node, "beta", 0.5f);
  return node.output(0);
}

// x / 2 * (1 + inner)
std::string add_half_product(OnnxGraph& graph, const std::string& name, const std::string& x,
                             const std::string& inner) {
  const std::string sum = graph.add(name + ".sum", "Add", {inner, graph.constant(name + ".one", 1.0f)});
  const std::string half = graph.add(name + ".half", "Mul", {x, graph.constant(name + ".by", 0.5f)});
  return graph.add(name, "Mul", {half, sum});
}

std::string add_gelu(OnnxGraph& graph, const std::string& name, const std::string& x) {
  const auto factor = static_cast<float>(1 / std::numbers::sqrt2);
  const std::string scaled = graph.add(name + ".scaled", "Mul", {x, graph.constant(name + ".factor", factor)});
  return add_half_product(graph, name, x, graph.add(name + ".erf", "Erf", {scaled}));
}

// The argument of tanh is sqrt(2 / pi) * x * (1 + 0.044715 * x^2).
std::string add_gelu_tanh(OnnxGraph& graph, const std::string& name, const std::string& x) {
  const auto factor = static_cast<float>(std::sqrt(2 / std::numbers::pi));
  const std::string square = graph.add(name + ".square", "Mul", {x, x});
  const std::string cubic = graph.add(name + ".cubic", "Mul", {square, graph.constant(name + ".of_cubic", 0.044715f)});
  const std::string share = graph.add(name + ".share", "Add", {cubic, graph.constant(name + ".of_share", 1.0f)});
  const std::string scaled = graph.add(name + ".scaled", "Mul", {x, graph.constant(name + ".factor", factor)});
  const std::string inner = graph.add(name + ".inner", "Mul", {scaled, share});
  return add_half_product(graph, name, x, graph.add(name + ".tanh", "Tanh", {inner}));
}

}  // namespace

std::string add_onnx_activation(OnnxGraph& graph, const LayerSpec& layer, const std::string& x) {
  using enum Activation::Kind;
  const std::string& name = layer.name;
  switch (layer.activation.kind) {
    case none: break;
    case relu: return graph.add(name, "Relu", {x});
    case relu6: {
      const std::string low = graph.constant(name + ".low", 0.0f), high = graph.constant(name + ".high", 6.0f);
      return graph.add(name, "Clip", {x, low, high});
    }
    case leaky_relu: {
      onnx::NodeProto& node = graph.node(name, "LeakyRelu", {x});
      OnnxGraph::set(node, "alpha", layer.activation.slope);
      return node.output(0);
    }
    case sigmoid: return graph.add(name, "Sigmoid", {x});
    case hard_sigmoid: return add_hard_sigmoid(graph, name, x);
    case silu: return graph.add(name, "Mul", {x, graph.add(name + ".sigmoid", "Sigmoid", {x})});
    case hard_swish: return graph.add(name, "Mul", {x, add_hard_sigmoid(graph, name + ".hard_sigmoid", x)});
    case gelu: return add_gelu(graph, name, x);
    case gelu_tanh: return add_gelu_tanh(graph, name, x);
    case tanh: return graph.add(name, "Tanh", {x});
  }
  return x;
}

std::string add_onnx_length(OnnxGraph& graph, const std::string& tokens) {
  const int64_t axis[] = {1};
  const std::string shape = graph.add("sequence:shape", "Shape", {tokens});
  return graph.add("sequence:length", "Gather", {shape, graph.constant("sequence:axis", axis)});
}

// Minus infinity where the column, the token that is read, is behind the row.
std::string add_onnx_causal_mask(OnnxGraph& graph, const std::string& length) {
  const std::string zero = graph.index("sequence:zero", 0), one = graph.index("sequence:one", 1);
  const std::string end = graph.add("sequence:end", "Gather", {length, zero});
  const std::string columns = graph.add("sequence:columns", "Range", {zero, end, one});
  const std::string rows = graph.reshape("sequence:rows", columns, {-1, 1});
  const std::string later = graph.add("sequence:later", "Less", {rows, columns});
  const std::string none = graph.constant("sequence:none", 0.0f);
  const std::string never = graph.constant("sequence:never", -std::numeric_limits<float>::infinity());
  return graph.add("sequence:mask", "Where", {later, never, none});
}

std::string add_onnx_positions(OnnxGraph& graph, const std::string& table, const std::string& length, int64_t axis) {
  const int64_t first[] = {0}, axes[] = {axis};
  const std::string begin = graph.constant(table + ":first", first), along = graph.constant(table + ":axis", axes);
  return graph.add(table + ":rows", "Slice", {table, begin, length, along});
}

std::string add_onnx_attention(OnnxGraph& graph, const LayerSpec& layer, const std::string& qkv,
                               const std::string& mask) {
  const std::string& name = layer.name;
  const int64_t tokens = layer.output.h, width = layer.output.c, of_head = width / layer.heads;
  const std::string parts = graph.reshape(name + ".parts", qkv, {0, 0, 3, layer.heads, of_head});
  const std::string heads = graph.transpose(name + ".heads", parts, {2, 0, 3, 1, 4});  // (3, batch, heads, tokens, d)
  const auto part = [&](const char* which, int64_t i) {
    const std::string index = graph.index(name + which + ".index", i);
    return graph.add(name + which, "Gather", {heads, index});
  };
  const std::string q = part(".q", 0), k = part(".k", 1), v = part(".v", 2);
  const std::string keys = graph.transpose(name + ".keys", k, {0, 1, 3, 2});
  const std::string products = graph.add(name + ".products", "MatMul", {q, keys});
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(of_head)));
  std::string scores = graph.add(name + ".scores", "Mul", {products, graph.constant(name + ".scale", scale)});
  if (layer.causal && !mask.empty()) scores = graph.add(name + ".masked", "Add", {scores, mask});
  if (layer.causal && mask.empty()) {
    require_onnx_holds(tokens * tokens * static_cast<int64_t>(sizeof(float)));
    std::vector<float> own(static_cast<size_t>(tokens * tokens));
    for (int64_t i = 0; i < tokens; ++i)
      std::fill(own.begin() + i * tokens + i + 1, own.begin() + (i + 1) * tokens,
                -std::numeric_limits<float>::infinity());
    const int64_t shape[] = {tokens, tokens};
    scores = graph.add(name + ".masked", "Add", {scores, graph.constant(name + ".mask", shape, own)});
  }
  onnx::NodeProto& softmax = graph.node(name + ".softmax", "Softmax", {scores});
  OnnxGraph::set(softmax, "axis", int64_t{-1});
  const std::string shares = softmax.output(0);
  const std::string values = graph.add(name + ".values", "MatMul", {shares, v});
  return graph.reshape(name, graph.transpose(name + ".joined", values, {0, 2, 1, 3}), {0, 0, width});
}

std::string add_onnx_group_norm(OnnxGraph& graph, const LayerSpec& layer, const std::string& x) {
  const std::string& name = layer.name;
  const auto& [h, w, c] = layer.input;
  const std::string groups = graph.reshape(name + ".groups", x, {0, layer.groups, -1});
  const std::vector<float> ones(static_cast<size_t>(layer.groups), 1.0f), zeros(ones.size());
  const std::string scale = graph.constant(name + ".ones", {&layer.groups, 1}, ones);
  const std::string shift = graph.constant(name + ".zeros", {&layer.groups, 1}, zeros);
  onnx::NodeProto& norm = graph.node(name + ".norm", "InstanceNormalization", {groups, scale, shift});
  OnnxGraph::set(norm, "epsilon", layer.norm.epsilon);
  const std::string image = graph.reshape(name + ".image", norm.output(0), {0, c, h, w});
  const std::string factor = graph.reshape(name + ".factor", name + ".weight", {c, 1, 1});
  const std::string term = graph.reshape(name + ".term", name + ".bias", {c, 1, 1});
  return graph.add(name, "Add", {graph.add(name + ".scaled", "Mul", {image, factor}), term});
}

std::string add_onnx_class_token(OnnxGraph& graph, const LayerSpec& layer, const std::string& tokens) {
  const std::string& name = layer.name;
  const int64_t first[] = {0}, one[] = {1, layer.input.c};
  const std::string shape = graph.add(name + ".input_shape", "Shape", {tokens});
  const std::string batch = graph.add(name + ".batch", "Gather", {shape, graph.constant(name + ".first", first)});
  onnx::NodeProto& to = graph.node(name + ".shape", "Concat", {batch, graph.constant(name + ".one", one)});
  OnnxGraph::set(to, "axis", int64_t{0});
  const std::string token = graph.add(name + ".token", "Expand", {name, name + ".shape.output"});
  onnx::NodeProto& joined = graph.node(name, "Concat", {token, tokens});
  OnnxGraph::set(joined, "axis", int64_t{1});
  return joined.output(0);
}

}  // namespace ddp
