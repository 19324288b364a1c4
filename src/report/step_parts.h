// The parts of a step of each rank as bars: waiting for data, computing, exposed communication.
#pragma once

#include "report/events.h"

#include <string>
#include <vector>

namespace ddp::report {

// HTML. `run`: its name. Of more than 32 ranks, the 32 that compute and wait for data longest are shown. `longest`:
// ms of the longest bar of all runs, so that their bars compare. Empty without ranks.
std::string draw_step_parts(const std::string& run, const std::vector<Parts>& ranks, double longest);

std::string step_parts_legend();

}  // namespace ddp::report
