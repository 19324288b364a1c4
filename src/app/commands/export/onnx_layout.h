// The layouts of values in an ONNX graph, which are those of PyTorch's layers.
#pragma once

#include "app/commands/export/onnx_graph.h"
#include "core/shape.h"

#include <string>

namespace ddp {

// The value that a layer computes. `shape` is ours, h x w x c; h x 1 x c are h tokens.
struct GraphValue {
  enum class Layout {
    channels_first,  // (batch, c, h, w)
    channels_last,   // (batch, h, w, c)
    tokens,          // (batch, h, c)
    flat             // (batch, c)
  };

  std::string name;
  ImageShape shape;
  Layout layout = Layout::channels_first;

  bool flat() const { return layout == Layout::flat; }
};

// Each of these adds nodes whose names begin with `name`, unless the value has the layout.
GraphValue to_channels_first(OnnxGraph& graph, const GraphValue& value, const std::string& name);
// Leaves tokens and features as they are: their channels are the last ones.
GraphValue to_channels_last(OnnxGraph& graph, const GraphValue& value, const std::string& name);
GraphValue to_tokens(OnnxGraph& graph, const GraphValue& value, const std::string& name);
// PyTorch flattens an image in the order c, h, w. The last node has the name itself.
GraphValue to_flat(OnnxGraph& graph, const GraphValue& value, const std::string& name);
GraphValue to_layout(OnnxGraph& graph, GraphValue::Layout layout, const GraphValue& value, const std::string& name);

}  // namespace ddp
