// ddp_train inspect: what is in a checkpoint, for people. Runs without MPI.
#pragma once

#include <span>
#include <string>

namespace ddp {

// The arguments behind "inspect": one path, of a checkpoint, of a run's folder or its checkpoints (of which the newest
// good one is meant), or of a safetensors file. Throws Error(Exit::usage), Error(Exit::data) where it is broken.
std::string inspect(std::span<const std::string> arguments);

}  // namespace ddp
