// The output of --plan: the buckets, the memory of a rank, and predicted times, from measurements of a few steps.
#pragma once

#include "data/sampler.h"
#include "train/step/replica.h"

#include <string>

namespace ddp {

// `evaluation_model`: TrainConfig::evaluation_model, whose memory counts too. Collective; takes well under a second for
// small models. Leaves the weights unchanged.
std::string plan_report(Replica& replica, const DistributedSampler& sampler, const Model* evaluation_model = nullptr);

}  // namespace ddp
