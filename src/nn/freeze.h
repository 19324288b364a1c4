// Frozen parts of a network: their parameters keep their values in training.
#pragma once

#include "nn/network.h"

#include <span>
#include <string>
#include <vector>

namespace ddp {

// `network` with frozen parameters: those whose name is a prefix, or begins with a prefix and a dot. So "layer1" means
// layer1.0.conv1.weight, but not layer10.0.conv1.weight. A batch norm whose parameters are all frozen normalises by its
// running statistics, also in training, and does not change them, as PyTorch's in eval(). Throws Error(Exit::usage)
// where a prefix matches no parameter, and where all parameters are frozen.
Network freeze(const Network& network, std::span<const std::string> prefixes);

}  // namespace ddp
