// Searches this rank's gradients and batch-norm sums for NaN and infinity. A launch hook, because it must run before
// the sum over ranks: so the ticket can name the rank.
#pragma once

#include "ddp/reducer.h"

namespace ddp {

struct Replica;

// Before each launch, marks this rank's `bad` slot of the ticket with the bucket, or with kBadStatistics, in which a
// value is not finite; the first mark stays. The replica outlives the hook.
LaunchHook nonfinite_scan(const Replica& replica);

}  // namespace ddp
