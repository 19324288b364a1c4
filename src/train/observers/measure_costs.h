// Measures what the parts of a step cost, between steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

namespace ddp {

// Of a training on `data`, whose samples are not read: means over the ranks that have samples in the first batch; equal
// on all ranks. The weights may be zero. Takes about 3 s, or twice a longer pass. Overwrites the gradients, which each
// step does too, and leaves the training's state unchanged. Collective.
StepCosts measure_costs(Replica& replica, const Dataset& data, const DistributedSampler& sampler);

}  // namespace ddp
