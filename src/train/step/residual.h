// The residual of gradients that travel between hosts in int8 (comm/int8.h), of a replica with sums_in_int8().
//
// Each sum of gradients reads what is `before` the step in progress, and writes what is `after` it. A sum that is no
// step's, as in a measurement, thus changes nothing.
#pragma once

#include "train/step/replica.h"

#include <functional>
#include <vector>

namespace ddp {

// Behind the optimizer's step: what is after it is before the next one. A bad step leaves the residual as it was. Waits
// for the device.
void take_residual(Replica& replica);

// The residual of a host, plan.gradients values: the sum over its ranks, of which each has a part. A rank with null
// `values` only takes part. Overwrites the gradients. Collective, between steps.
void download_residual(Replica& replica, int host, float* values);

// of_host(h): that of a host of an earlier run, the same values on all ranks; called once for each of its hosts, in
// order. If the number of hosts is the same, each host takes its own residual; with sharded optimizer state and other
// parts, it loses the values that it does not round any more. Else the hosts that round a value share its sum. Does
// nothing without sums_in_int8(). Runs each collective of the gradients once, and overwrites them. Collective, after
// set_buckets() and before the first step.
void load_residuals(Replica& replica, int hosts_then, const std::function<std::vector<float>(int host)>& of_host);

}  // namespace ddp
