// Layers that take several ONNX nodes. Each function returns the name of the result, "LAYER.output".
#pragma once

#include "app/commands/export/onnx_graph.h"
#include "nn/network.h"

#include <string>

namespace ddp {

std::string add_onnx_activation(OnnxGraph& graph, const LayerSpec& layer, const std::string& x);

// `qkv` is (batch, tokens, 3 * channels), the result (batch, tokens, channels).
std::string add_onnx_attention(OnnxGraph& graph, const LayerSpec& layer, const std::string& qkv);

// `x` is (batch, channels, h, w). PyTorch's own exports have these nodes too: the operator GroupNormalization has
// another meaning before operator set 21.
std::string add_onnx_group_norm(OnnxGraph& graph, const LayerSpec& layer, const std::string& x);

// `tokens` is (batch, tokens, channels); the result has one token more, the first one.
std::string add_onnx_class_token(OnnxGraph& graph, const LayerSpec& layer, const std::string& tokens);

}  // namespace ddp
