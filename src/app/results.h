// The results of a finished run.
#pragma once

#include "app/options.h"
#include "core/log.h"
#include "data/sampler.h"
#include "train/replica.h"
#include "train/trainer.h"

#include <cstdint>
#include <filesystem>

namespace ddp {

// Rank 0 writes model.safetensors and summary.json to the folder and prints the last line. All ranks call it. Throws
// Error(Exit::output).
void write_results(const Options& options, const TrainReport& report, const Replica& replica,
                   const DistributedSampler& sampler, const Log& log, const std::filesystem::path& folder);

}  // namespace ddp
