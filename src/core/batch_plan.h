// The sizes of a micro-batch, in samples, and its place in the run: a pure function of the sampler's arguments. A step
// has one or more micro-batches. Each is divided among the ranks; the part of a rank is its shard.
//
// The loss of a step is the sum over its samples divided by step_size, on every rank and in every micro-batch. No other
// size divides a loss or a gradient. Where a step has excluded samples, or the labels have weights,
// Ops::correct_for_excluded corrects the divisor.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr int32_t kExcludedLabel = -1;  // of a sample whose picture cannot be read: it has no weight

struct BatchPlan {
  int64_t size = 0;             // this rank's shard of the micro-batch; 0 is legal
  int64_t global_size = 0;      // the micro-batch, over all ranks
  int64_t step_size = 0;        // all micro-batches of the step, over all ranks
  int64_t local_step_size = 0;  // this rank's shards of all micro-batches of the step
  int64_t epoch = 0;            // from 0
  int64_t step = 0;             // within the epoch, from 0
  int micro = 0;                // within the step, from 0
};

}  // namespace ddp
