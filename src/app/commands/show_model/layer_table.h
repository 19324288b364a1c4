// The layers of a network as a table.
#pragma once

#include "nn/network.h"

#include <string>

namespace ddp {

// A line for each layer: name, kind, shapes, parameters, MFLOP of the forward pass and KiB of the output in f32 for one
// image or sequence, and what it is fused into. Then the totals.
std::string layer_table(const Network& network);

}  // namespace ddp
