// What torchvision's ResNets share (He et al., 2015): a 7 x 7 stem of stride 2, a max pooling, four stages of residual
// blocks; in a bottleneck the stride is in the 3 x 3 convolution.
#pragma once

#include "nn/network.h"

#include <array>

namespace ddp {

// `expansion` 1: blocks of two 3 x 3 convolutions; else bottlenecks that widen by it.
Network torchvision_resnet(const char* name, ImageShape image, int64_t classes, int64_t expansion,
                           const std::array<int, 4>& blocks);

}  // namespace ddp
