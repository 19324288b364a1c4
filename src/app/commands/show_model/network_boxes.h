// What the drawing of a network shows of its layers.
#pragma once

#include "nn/network.h"
#include "report/network_drawing.h"

namespace ddp {

// A box for each layer that is not fused into another one; what is fused into it stands behind a "+" in its text.
report::NetworkDrawing drawing_of(const Network& network);

}  // namespace ddp
