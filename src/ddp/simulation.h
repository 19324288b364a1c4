// Steps on a cluster as events, to check what scaling.h predicts by a formula. Each rank draws its computing time, a
// host joins a collective when its last rank is ready and its last collective is done, and messages between hosts
// arrive one by one. So the simulation has what the formula leaves out: steps with a slow rank and steps without one
// have different exposed communication, a late host delays its neighbours first, and hosts run apart.
#pragma once

#include "ddp/scaling.h"

#include <cstdint>
#include <optional>
#include <span>

namespace ddp {

// Messages between hosts in one step.
int64_t messages_of_step(const StepPlan& plan, const Cluster& cluster);

// The mean time in ms of `steps` steps in a row, from a pure function of `seed`. The wait for data is that of the
// formula, `data_ms`.
double simulate_steps(const StepPlan& plan, const Cluster& cluster, std::span<const Quantile> spread, double data_ms,
                      int64_t steps, uint64_t seed = 0);

// The same for a profile, over as many steps as have about 4 million messages together, at least one. None: a step has
// more than 10 million.
std::optional<double> simulate_scaling(const RunProfile& profile, const Cluster& cluster, const Workload& workload,
                                       double data_ms);

}  // namespace ddp
