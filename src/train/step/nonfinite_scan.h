// Searches this rank's gradients and batch-norm sums for NaN and infinity. A launch hook, because it must run before
// the sum over ranks: so the ticket can name the rank.
#pragma once

#include "ddp/reducer.h"

namespace ddp {

struct Replica;

// Before each launch: if a value of its bucket or batch-norm sums is not finite, sets this rank's `bad` slot of the
// ticket to the bucket's mark or to kBadBnSums. The first mark stays. Adds the bucket's squares to those of the ticket.
// With Replica::scans_once only the launch of the last bucket scans, all of them, and sets block.squares(), as its part
// is the whole. The replica outlives the hook.
LaunchHook nonfinite_scan(const Replica& replica);

}  // namespace ddp
