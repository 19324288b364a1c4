// Small networks with frozen parts.
#pragma once

#include "nn/freeze.h"
#include "tests/train/small.h"

#include <string>
#include <vector>

namespace ddp::testing {

struct FrozenPart {
  const char* name;
  std::vector<std::string> prefixes;
};

// Parts of norm_network(). In the first three a norm's parameters are all frozen.
inline const std::vector<FrozenPart> kFrozenParts = {
    {"the_beginning", {"0", "1", "4"}},
    {"all_norms", {"1", "4.2", "4.5", "5.1"}},
    {"norm_of_a_trained_bias", {"4.5", "0"}},
    {"single_tensors", {"4.0.bias", "4.1.weight", "4.4.bias", "4.5.bias", "5.0", "5.1.weight", "8.bias", "11.weight"}}};

inline Network frozen_network(const FrozenPart& part) { return freeze(norm_network(), part.prefixes); }

// On a GPU the pools compute the gradients of the ReLUs and biases before them.
inline Network two_pools() {
  return Network("two pools", {8, 8, 2})
      .conv2d(3, 3, {.padding = 1})
      .relu()
      .avg_pool2d(2)
      .conv2d(4, 3, {.padding = 1})
      .relu()
      .max_pool2d(2, 2)
      .flatten()
      .linear(7)
      .relu()
      .linear(4);
}

}  // namespace ddp::testing
