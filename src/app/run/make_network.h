// The network of --model for the samples of a data set.
#pragma once

#include "app/options/options.h"
#include "data/dataset.h"
#include "nn/network.h"

#include <cstdint>
#include <optional>

namespace ddp {

// `config` has its source. With the frozen parameters of --freeze. Throws Error: Exit::usage for an unknown name, for a
// part that --freeze cannot freeze, for a batch-norm option if the network has no batch norms that train, and for a
// network that reads tokens where the data are images, or the reverse; Exit::model if the data do not fit the network.
Network make_network(const NetworkConfig& config, bool sync_bn, const Dataset& data);

// The network for images of another size that has the same parameters as `network`. None where the size is equal.
// Throws Error(Exit::usage) if its parameters are others.
std::optional<Network> network_for(const NetworkConfig& config, const Network& network, ImageShape image,
                                   int64_t classes);

}  // namespace ddp
