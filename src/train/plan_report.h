// What --plan prints: the buckets, the memory of a rank, and the times to expect, measured in a dry run of a few steps.
#pragma once

#include "data/sampler.h"
#include "train/replica.h"

#include <string>

namespace ddp {

// Collective; takes well under a second for small models. Weights are left as they were.
std::string plan_report(Replica& replica, const DistributedSampler& sampler);

}  // namespace ddp
