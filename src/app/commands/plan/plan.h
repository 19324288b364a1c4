// ddp_train plan: what a training would reach on more ranks. Runs without MPI.
#pragma once

#include "core/error.h"

#include <cstdio>
#include <span>
#include <string>

namespace ddp {

// `arguments` follow "plan". Prints to `out`. Throws Error: Exit::usage, also where a link is not known; Exit::data for
// a profile that cannot be read; Exit::output.
Exit plan_cluster(std::span<const std::string> arguments, std::FILE* out);

}  // namespace ddp
