// Layers in words, for people.
#pragma once

#include "nn/network.h"

#include <string>

namespace ddp {

// The kind with its main numbers, such as "conv2d 64, 3 x 3, stride 2, padding 1, no bias". What is fused into the
// layer is not in it.
std::string describe(const LayerSpec& layer);

// The layer that computes the output of layer `index`: the layer itself, or what a view is fused into. kImage: a view
// of the image.
int computed_by(const Network& network, int index);

// "into bn2" of a layer that another one computes, "no copy" of a flatten; empty: a layer of its own.
std::string describe_fusion(const Network& network, int index);

}  // namespace ddp
