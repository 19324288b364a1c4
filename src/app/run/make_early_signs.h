// Makes the hints of a run: the option that mends what its first steps show.
#pragma once

#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "telemetry/early_signs.h"

#include <memory>
#include <span>
#include <string>

namespace ddp {

// Null on ranks other than 0. Prints the hint of the cores at once. `hosts`: the host of each rank. Collective.
std::unique_ptr<EarlySigns> make_early_signs(const Job& job, const PlannedRun& run, std::span<const std::string> hosts);

}  // namespace ddp
