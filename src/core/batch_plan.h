// The sizes of a micro-batch, in samples, and its place in the run: a pure function of the sampler's arguments. A step
// has one or more micro-batches; each is divided among the ranks.
//
// The loss of a step is the sum over its samples divided by step_size, on every rank and in every micro-batch. No other
// size divides a loss or a gradient.
#pragma once

#include <cstdint>

namespace ddp {

struct BatchPlan {
  int64_t size = 0;             // this rank's part of the micro-batch; 0 is legal
  int64_t global_size = 0;      // the micro-batch, over all ranks
  int64_t step_size = 0;        // all micro-batches of the step, over all ranks
  int64_t local_step_size = 0;  // all micro-batches of the step, this rank's parts
  int64_t epoch = 0;            // from 0
  int64_t step = 0;             // within the epoch, from 0
  int micro = 0;                // number of the micro-batch within the step, from 0
};

}  // namespace ddp
