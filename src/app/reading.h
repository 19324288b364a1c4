// How the reading of the data before the first step proceeds: what the watchdog and the doctor need to know.
#pragma once

#include "health/phase_tracker.h"

#include <functional>

namespace ddp {

// Called in the thread of the rank. Both are cheap.
struct Reading {
  std::function<void()> progress = [] {};  // when the rank begins to list, check or measure its part, and from then on
  std::function<void()> done = [] {};      // when it has its part and waits for the other ranks
};

// The phase `reading`, whose time begins again with each progress, as long as this rank reads; then `start_up`.
// `phases` outlives the result.
Reading reading_phase(PhaseTracker& phases);

}  // namespace ddp
