// The output of --plan: the buckets, the memory of a rank, and predicted times, from measurements of a few steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

#include <initializer_list>
#include <optional>
#include <string>

namespace ddp {

// Of a training on `data`, whose samples are not read. `evaluation_models`: those of TrainConfig or null, whose memory
// counts too. `costs`: of the step, for the predictions of several ranks; none: they are measured. Collective; takes
// well under a second for small models. Leaves the weights unchanged.
std::string plan_report(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                        std::initializer_list<const Model*> evaluation_models = {},
                        std::optional<StepCosts> costs = std::nullopt);

}  // namespace ddp
