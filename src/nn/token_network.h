// What a network that reads tokens is.
#pragma once

#include "nn/network.h"

namespace ddp {

// Whether no position of a network that reads tokens depends on a later one, in training as in inference.
bool is_causal(const Network& network);

}  // namespace ddp
