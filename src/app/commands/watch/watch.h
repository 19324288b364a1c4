// ddp_train watch: shows a run from another terminal, or from another host that sees its folder. Runs without MPI.
#pragma once

#include "core/error.h"

#include <span>
#include <string>

namespace ddp {

// On a terminal, shows the progress and all ranks twice a second until the run has ended or a signal ends the command.
// Elsewhere prints them once. `arguments` follow "watch". Throws Error: Exit::usage, Exit::data where the folder has no
// readable status of a run, Exit::output where stdout cannot be written.
Exit watch(std::span<const std::string> arguments);

}  // namespace ddp
