// ddp_train inspect: prints the content of a checkpoint as text. Runs without MPI.
#pragma once

#include <span>
#include <string>

namespace ddp {

// Returns the text for the arguments after "inspect": one path. A checkpoint and a safetensors file stand for
// themselves; a run's folder, or its folder of checkpoints, stands for its newest good checkpoint. Throws
// Error(Exit::usage), and Error(Exit::data) where the file or the checkpoint is broken.
std::string inspect(std::span<const std::string> arguments);

}  // namespace ddp
