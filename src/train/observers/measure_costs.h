// Measures what the parts of a step cost, between steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

namespace ddp {

// Of a training on `data`, whose samples are not read: means over the ranks that have samples in the first batch; equal
// on all ranks. The weights may be zero. Takes up to 3 s: one pass that does not count and up to `passes`, at least
// one; then collectives alone. Overwrites the gradients, which each step does too, and leaves the training's state
// unchanged. Collective.
StepCosts measure_costs(Replica& replica, const Dataset& data, const DistributedSampler& sampler, int passes = 5);

}  // namespace ddp
