// A network of the layers that make all activations dense.
#pragma once

#include "nn/network.h"

namespace ddp::testing {

// Two residual sums: of convolutions with groups and dilation, and of a transformer's block.
inline Network dense_network(bool batch_norms = true) {
  using enum Activation::Kind;
  const auto norm = [&](Network& net) { batch_norms ? net.batch_norm() : net.group_norm(2); };
  Network net("dense", {8, 8, 2});
  norm(net.conv2d(4, 3, {.padding = 1, .bias = false}));
  const int image = net.activation({silu}).here();
  net.conv2d(8, 3, {.padding = 1, .groups = 2}).activation({gelu});
  norm(net.conv2d(8, 3, {.padding = 2, .bias = false, .groups = 8, .dilation = 2}));
  net.activation({hard_swish}).conv2d(4, 1).group_norm(2).stochastic_depth(0.4f).add(image);
  net.conv2d(6, 3, {.dilation = 2}).adaptive_avg_pool(3, 2).tokens().class_token().position_embedding();
  const int tokens = net.here();
  net.layer_norm().attention(2).stochastic_depth(0.3f).add(tokens);
  return net.layer_norm().first_token().flatten().linear(4);
}

}  // namespace ddp::testing
