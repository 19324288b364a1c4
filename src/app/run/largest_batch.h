// The search for the largest global batch that fits in memory: a pure decision.
#pragma once

#include <cstdint>
#include <functional>

namespace ddp {

// The batches that --batch-size max considers are multiples of this. `most`: the largest batch; `parts`: ranks times
// micro-batches. The parts of a batch are then equal, and multiples of 8: CPU ranks put a sample in each of 8 or 16
// lanes, and the matrix units of GPUs take multiples of 8. Small data sets have no room for that.
int64_t unit_of_batches(int64_t most, int64_t parts);

// The largest multiple of `unit`, at most `most`, whose memory is at most `available`; 0 if there is none. `memory`
// does not decrease. It is called about 2 log2(most / unit) times at most, and a few times where it is nearly a line.
int64_t largest_batch(int64_t unit, int64_t most, int64_t available, const std::function<int64_t(int64_t)>& memory);

}  // namespace ddp
