// ddp_train export: writes a trained network to one file for other programs. Runs on the CPU, without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <span>
#include <string>

namespace ddp {

// `arguments` follow "export". Prints a line about the file to `out`. Throws Error: Exit::usage, also under a launcher
// of several ranks, of which rank 0 alone does anything; Exit::data or Exit::model for the network; Exit::numerics for
// weights with NaN or infinity; Exit::output for the file. After an error there is no file.
Exit export_network(std::span<const std::string> arguments, std::FILE* out);

}  // namespace ddp
