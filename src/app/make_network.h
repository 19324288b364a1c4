// The network of --model for the images of a data set.
#pragma once

#include "app/options.h"
#include "data/dataset.h"
#include "nn/network.h"

namespace ddp {

// Throws Error: Exit::usage for an unknown name, or for an option of batch norms where the network has none;
// Exit::model where the images do not fit.
Network make_network(const Options& options, const Dataset& data);

}  // namespace ddp
