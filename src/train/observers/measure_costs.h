// Measures what the parts of a step cost, between steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

namespace ddp {

// Of a training on `data`, whose samples are not read: means over the ranks that have samples in the first batch; equal
// on all ranks. The weights may be zero. Makes one pass that does not count, and up to `passes` in 2 s, at least one;
// then collectives of four sizes, each at least twice, in a second if possible. Overwrites the gradients, which each
// step does too, and leaves the training's state unchanged. Collective.
StepCosts measure_costs(Replica& replica, const Dataset& data, const DistributedSampler& sampler, int passes = 5);

}  // namespace ddp
