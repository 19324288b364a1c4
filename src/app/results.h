// The results of a finished run.
#pragma once

#include "core/log.h"
#include "data/sampler.h"
#include "train/replica.h"
#include "train/trainer.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddp {

// Writes model.safetensors and summary.json into the folder, and prints the closing line; rank 0 alone does either.
// Throws Error(Exit::output).
void write_results(const std::string& model, const TrainReport& report, const Replica& replica,
                   const DistributedSampler& sampler, const Log& log, const std::filesystem::path& folder);

}  // namespace ddp
