#include "nn/network.h"

namespace ddp {

const char* name_of(LayerSpec::Kind kind) {
  switch (kind) {
    case LayerSpec::Kind::conv2d: return "conv2d";
    case LayerSpec::Kind::linear: return "linear";
    case LayerSpec::Kind::batch_norm: return "batch_norm";
    case LayerSpec::Kind::layer_norm: return "layer_norm";
    case LayerSpec::Kind::group_norm: return "group_norm";
    case LayerSpec::Kind::activation: return "activation";
    case LayerSpec::Kind::pool2d: return "pool2d";
    case LayerSpec::Kind::flatten: return "flatten";
    case LayerSpec::Kind::tokens: return "tokens";
    case LayerSpec::Kind::dropout: return "dropout";
    case LayerSpec::Kind::stochastic_depth: return "stochastic_depth";
    case LayerSpec::Kind::add: return "add";
    case LayerSpec::Kind::concat: return "concat";
    case LayerSpec::Kind::gate: return "gate";
    case LayerSpec::Kind::layer_scale: return "layer_scale";
    case LayerSpec::Kind::embedding: return "embedding";
    case LayerSpec::Kind::class_token: return "class_token";
    case LayerSpec::Kind::position_embedding: return "position_embedding";
    case LayerSpec::Kind::attention: return "attention";
    case LayerSpec::Kind::first_token: return "first_token";
  }
  return "layer";
}

const char* name_of(Activation::Kind kind) {
  using enum Activation::Kind;
  switch (kind) {
    case none: return "none";
    case relu: return "relu";
    case relu6: return "relu6";
    case leaky_relu: return "leaky_relu";
    case sigmoid: return "sigmoid";
    case hard_sigmoid: return "hard_sigmoid";
    case silu: return "silu";
    case hard_swish: return "hard_swish";
    case gelu: return "gelu";
    case gelu_tanh: return "gelu_tanh";
    case tanh: return "tanh";
  }
  return "activation";
}

}  // namespace ddp
