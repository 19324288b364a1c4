// The ranks tell each other which pictures they could not read.
#pragma once

#include "comm/communicator.h"
#include "data/exclusions.h"

#include <vector>

namespace ddp {

// The pictures that a rank could not read since the last call: the same ones on all ranks, which exclude them from now
// on. Ascending. `step`: they are excluded from it on; 0: each from the step that lacked it. Collective and blocking.
std::vector<BrokenPicture> agree_on_exclusions(Exclusions& exclusions, int64_t step, Communicator& communicator);

}  // namespace ddp
