#include "app/commands/export/onnx_layout.h"

namespace ddp {

using Layout = GraphValue::Layout;

GraphValue to_channels_first(OnnxGraph& graph, const GraphValue& value, const std::string& name) {
  const auto& [h, w, c] = value.shape;
  std::string image = value.name;
  if (value.layout == Layout::channels_last) image = graph.transpose(name + ".nchw", image, {0, 3, 1, 2});
  if (value.layout == Layout::tokens) image = graph.transpose(name + ".columns", image, {0, 2, 1});
  if (value.layout == Layout::tokens || value.flat()) image = graph.reshape(name + ".nchw", image, {0, c, h, w});
  return {image, value.shape};
}

GraphValue to_channels_last(OnnxGraph& graph, const GraphValue& value, const std::string& name) {
  if (value.layout != Layout::channels_first) return value;
  return {graph.transpose(name + ".nhwc", value.name, {0, 2, 3, 1}), value.shape, Layout::channels_last};
}

GraphValue to_tokens(OnnxGraph& graph, const GraphValue& value, const std::string& name) {
  if (value.layout == Layout::tokens) return value;
  const ImageShape shape{value.shape.h * value.shape.w, 1, value.shape.c};
  const GraphValue last = to_channels_last(graph, value, name);
  return {graph.reshape(name + ".tokens", last.name, {0, shape.h, shape.c}), shape, Layout::tokens};
}

GraphValue to_flat(OnnxGraph& graph, const GraphValue& value, const std::string& name) {
  if (value.flat()) return value;
  onnx::NodeProto& node = graph.node(name, "Flatten", {to_channels_first(graph, value, name).name});
  OnnxGraph::set(node, "axis", int64_t{1});
  return {node.output(0), {1, 1, value.shape.elements()}, Layout::flat};
}

GraphValue to_layout(OnnxGraph& graph, Layout layout, const GraphValue& value, const std::string& name) {
  switch (layout) {
    case Layout::channels_first: return to_channels_first(graph, value, name);
    case Layout::channels_last:
      if (value.layout == layout) return value;
      return to_channels_last(graph, to_channels_first(graph, value, name), name);
    case Layout::tokens: return to_tokens(graph, value, name);
    case Layout::flat: break;
  }
  return to_flat(graph, value, name);
}

}  // namespace ddp
