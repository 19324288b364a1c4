// Makes the trace of a run.
#pragma once

#include "app/run/open_job.h"
#include "telemetry/trace.h"

#include <memory>
#include <span>
#include <string>

namespace ddp {

// Throws CollectiveError(Exit::output) where the file of --trace cannot be written, so that such a run leaves no
// folder. Collective.
void require_possible_trace(const Job& job);

// Null without --trace. Logs where none of its steps is left. `hosts`: the host of each rank. `job` outlives the trace.
// Collective. Throws CollectiveError(Exit::output) where the file cannot be created.
std::unique_ptr<Trace> make_trace(const Job& job, int64_t steps_done, std::span<const std::string> hosts);

// Says where the trace is, or that it is empty. Does nothing for null, and on ranks other than 0.
void report_trace(const Trace* trace, const Job& job);

}  // namespace ddp
