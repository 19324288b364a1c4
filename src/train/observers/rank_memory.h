// The memory that a replica has planned.
#pragma once

#include "ddp/run_profile.h"
#include "train/step/replica.h"

#include <initializer_list>

namespace ddp {

// `evaluation_models`: as those of plan_report().
RankMemory memory_of(const Replica& replica, std::initializer_list<const Model*> evaluation_models);

}  // namespace ddp
