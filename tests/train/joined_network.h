// A network of layers that join and scale values.
#pragma once

#include "nn/network.h"

namespace ddp::testing {

inline Network joined_network() {
  Network net = Network("joined", {8, 8, 2}).conv2d(4, 3);
  const int x = net.here();
  net.global_avg_pool().conv2d(2, 1).relu().conv2d(4, 1).gate(x);
  const int gated = net.here();
  net.conv2d(4, 3, {.padding = 1}).layer_scale(0.5f).stochastic_depth(0.4f).add(gated).concat(x);
  net.conv2d(5, 2, {.stride = 2}).tokens().class_token().position_embedding().dropout(0.2f);
  const int tokens = net.here();
  return net.first_token().gate(tokens).global_avg_pool().flatten().linear(4);
}

}  // namespace ddp::testing
