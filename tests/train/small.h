// A network and a dataset that are small enough for the reference ops.
#pragma once

#include "data/memory_dataset.h"
#include "nn/network.h"

#include <cstdint>
#include <vector>

namespace ddp::testing {

inline Network small_network() {
  return Network("small", {8, 8, 2}).conv2d(3, 3).relu().avg_pool2d(2).flatten().linear(7).relu().linear(4);
}

// Has batch norms with and without scale, a padded max pooling, residual sums and dropout.
inline Network norm_network() {
  return Network("norms", {8, 8, 2})
      .conv2d(4, 3, {.padding = 1, .bias = false})
      .batch_norm()
      .relu()
      .max_pool2d(3, 2, 1)
      .residual(
          [](Network& main) {
            main.conv2d(6, 3, {.stride = 2, .same = true}).batch_norm({.scale = false, .unbiased = false}).relu();
            main.conv2d(6, 3, {.padding = 1}).batch_norm();
          },
          [](Network& shortcut) { shortcut.conv2d(6, 1, {.stride = 2}); })
      .residual([](Network& main) { main.conv2d(6, 3, {.padding = 1}).batch_norm(); }, [](Network&) {})
      .global_avg_pool()
      .flatten()
      .linear(7)
      .relu()
      .dropout(0.3f)
      .linear(4);
}

inline MemoryDataset small_data(int64_t samples, ImageShape shape = {8, 8, 2}) {
  std::vector<uint8_t> pixels(samples * shape.elements()), labels(samples);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<uint8_t>(i * 40503u >> 5) % 4;
  return {shape, 4, pixels, labels};
}

}  // namespace ddp::testing
