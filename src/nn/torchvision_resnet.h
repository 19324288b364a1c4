// The ResNets of torchvision (He et al., 2015): a 7 x 7 stem of stride 2, a max pooling and four stages of residual
// blocks. In a bottleneck block, the 3 x 3 convolution has the stride.
#pragma once

#include "nn/network.h"

#include <array>

namespace ddp {

// `expansion` 1: basic blocks of two 3 x 3 convolutions. Above 1: bottleneck blocks whose output has `expansion` times
// the width. `blocks` is the number of blocks in each stage.
Network torchvision_resnet(const char* name, ImageShape image, int64_t classes, int64_t expansion,
                           const std::array<int, 4>& blocks);

}  // namespace ddp
