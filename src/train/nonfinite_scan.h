// Looks for NaN and infinity in what this rank is about to sum. A launch hook: it looks before the sum, so that the
// ticket can tell whose they were.
#pragma once

#include "ddp/reducer.h"

namespace ddp {

struct Replica;

// Marks this rank's slot of the ticket with the first bucket, or the batch norms, in which a value is not finite. The
// replica outlives the hook.
LaunchHook nonfinite_scan(const Replica& replica);

}  // namespace ddp
