// The file of weights that a path means.
#pragma once

#include "core/log.h"

#include <filesystem>

namespace ddp {

// A run's own model.safetensors, or else that of its newest good checkpoint; that of a checkpoint; a path that is no
// folder as it is. With `average`, the model_ema.safetensors of a run or of a checkpoint. Warns of checkpoints that it
// skips. Throws Error(Exit::data).
std::filesystem::path find_weights(const std::filesystem::path& given, const Log& log, bool average = false);

}  // namespace ddp
