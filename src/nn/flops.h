// The arithmetic of a network.
#pragma once

#include "nn/network.h"

namespace ddp {

// Floating-point operations of the forward pass for one image: two for each multiply-add of a convolution, of a linear
// layer, and of the two products of an attention, as in the figures of torchvision, which count multiply-adds. Padding
// and what a causal attention leaves out count too; bias, norms, activations, pools and sums do not. Exact below 2^53.
double forward_flops(const LayerSpec& layer);
double forward_flops(const Network& network);

}  // namespace ddp
