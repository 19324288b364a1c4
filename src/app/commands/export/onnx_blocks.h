// Layers that take several ONNX nodes. Each function returns the name of the result, "LAYER.output".
#pragma once

#include "app/commands/export/onnx_graph.h"
#include "nn/network.h"

#include <string>

namespace ddp {

std::string add_onnx_activation(OnnxGraph& graph, const LayerSpec& layer, const std::string& x);

// `qkv` is (batch, tokens, 3 * channels), the result (batch, tokens, channels). `mask`: what a causal attention adds to
// its scores; empty: a constant for the tokens of the layer.
std::string add_onnx_attention(OnnxGraph& graph, const LayerSpec& layer, const std::string& qkv,
                               const std::string& mask);

// Of a sequence `tokens`, i64 (batch, tokens): its length as a list of one number, the mask of its causal attentions,
// and the first rows of a table on this axis, as many as it has tokens. No layer has a name with a colon.
std::string add_onnx_length(OnnxGraph& graph, const std::string& tokens);
std::string add_onnx_causal_mask(OnnxGraph& graph, const std::string& length);
std::string add_onnx_positions(OnnxGraph& graph, const std::string& table, const std::string& length, int64_t axis);

// `x` is (batch, channels, h, w). PyTorch's own exports have these nodes too: the operator GroupNormalization has
// another meaning before operator set 21.
std::string add_onnx_group_norm(OnnxGraph& graph, const LayerSpec& layer, const std::string& x);

// `tokens` is (batch, tokens, channels); the result has one token more, the first one.
std::string add_onnx_class_token(OnnxGraph& graph, const LayerSpec& layer, const std::string& tokens);

}  // namespace ddp
