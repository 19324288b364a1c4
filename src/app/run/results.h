// The end of a run: the results of a finished one, or how to resume a stopped one.
#pragma once

#include "app/inputs/model_info.h"
#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"
#include "data/sampler.h"
#include "health/signals.h"
#include "train/step/replica.h"
#include "train/trainer.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ddp {

// Rank 0 writes model.safetensors, which says what `model` is, model_ema.safetensors if there is an average,
// summary.json, and confusion.csv where the run was evaluated and has few enough classes, to the folder, and prints
// what limits the speed and the last line. `hosts`: the host of each rank, on rank 0. All ranks call it. Throws
// Error(Exit::output).
void write_results(const ModelInfo& model, const TrainReport& report, const Replica& replica,
                   const DistributedSampler& sampler, std::span<const std::string> hosts, const Log& log,
                   const std::filesystem::path& folder);

// Prints which signal stopped the run and how to resume it. Returns Exit::stopped. Throws CollectiveError(Exit::output)
// where the last step was not saved. Collective.
Exit report_stop(MpiSession& session, const Signals& signals, const TrainReport& report,
                 const std::filesystem::path& folder, const Log& log);

}  // namespace ddp
