// How the reading of the data proceeds: what the watchdog, the doctor and the user need to know.
#pragma once

#include "app/options/options.h"
#include "core/log.h"
#include "health/phase_tracker.h"
#include "train/step/device_dataset.h"

#include <functional>

namespace ddp {

// The reading before the first step. Called in the thread of the rank. Both are cheap.
struct Reading {
  std::function<void()> progress = [] {};  // when the rank begins to list, check or measure its part, and from then on
  std::function<void()> done = [] {};      // when it has its part and waits for the other ranks
};

// The phase `reading`, whose time begins again with each progress, as long as this rank reads; then `start_up`.
// `phases` outlives the result.
Reading reading_phase(PhaseTracker& phases);

// Where data lie and who reads them, without exclusions. After 20 s without data, or half of --step-timeout if that is
// less, a rank names the file that it reads. `log` outlives the result.
DataPlacement placement_for(const Options& options, int workers, const Log& log);

}  // namespace ddp
