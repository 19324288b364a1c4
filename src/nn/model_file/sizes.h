// The sizes of a network from a file: bounded, so that no later sum or product of them overflows.
#pragma once

#include "nn/network.h"

#include <cstdint>

namespace ddp {

// Of the outputs of all layers for one image, and of all parameters.
inline constexpr int64_t kMostModelElements = int64_t{1} << 40;

class ModelSizes {
 public:
  explicit ModelSizes(ImageShape image);

  // Throws Error(Exit::model) if there are more elements than the limit.
  void add(const LayerSpec& layer);

 private:
  int64_t outputs_ = 0, parameters_ = 0;
};

}  // namespace ddp
