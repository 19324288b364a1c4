// Questions about networks that read tokens: whether a file describes one, and whether it is causal.
#pragma once

#include "nn/network.h"

namespace ddp {

// Whether no position of a network that reads tokens depends on a later one, in training as in inference.
bool is_causal(const Network& network);

}  // namespace ddp
