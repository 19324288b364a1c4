// What must hold of a whole network from a file.
#pragma once

#include "core/toml.h"
#include "nn/network.h"

#include <cstdint>
#include <span>
#include <string>

namespace ddp {

// Each output has a reader, each tensor a name of its own, the last layer gives one value for each class, and there is
// something to train. `texts` has the text of each layer. Throws a ModelFileError.
void require_whole_network(const Network& network, int64_t classes, std::span<const toml::table* const> texts,
                           const std::string& where);

}  // namespace ddp
