// ddp_train show-model: the layers, the cost and the drawing of a network. Runs without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <span>
#include <string>

namespace ddp {

// `arguments` follow "show-model". Prints to `out`. Throws Error: Exit::usage; Exit::data for a file or weights that
// cannot be read; Exit::model for a network that does not fit; Exit::output.
Exit show_model(std::span<const std::string> arguments, std::FILE* out);

}  // namespace ddp
