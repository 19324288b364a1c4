// Makes the reporter of a run from the output options.
#pragma once

#include "app/options/options.h"
#include "data/sampler.h"
#include "health/watchdog.h"
#include "train/reporter.h"
#include "train/trainer.h"

#include <filesystem>
#include <memory>
#include <string>

namespace ddp {

// Rank 0's reporter prints, and writes metrics.jsonl and the files of other options into `folder`; the other ranks'
// reporters are disabled. --progress auto shows a bar where the output goes to a terminal. `run_event`: a line for
// metrics.jsonl (run_event.h). `watchdog` outlives the reporter. Throws Error(Exit::output).
std::unique_ptr<Reporter> make_reporter(const OutputConfig& output, const TrainConfig& config,
                                        const DistributedSampler& sampler, const Watchdog& watchdog, int rank,
                                        const std::filesystem::path& folder, const std::string& run_event);

}  // namespace ddp
