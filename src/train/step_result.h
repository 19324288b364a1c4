// The configuration of steps and the result of a step.
#pragma once

#include "ddp/ticket.h"

#include <cstdint>
#include <functional>
#include <string>

namespace ddp {

struct StepConfig {
  int micro_batches = 1;                  // of a step; their gradients are added, then summed over ranks once
  int64_t skip_limit = 0;                 // largest number of consecutive bad steps that are skipped
  int64_t done = 0;                       // steps of this run before the first one here
  int64_t skipped_in_a_row = 0;           // consecutive bad steps that end with step `done`
  std::function<Request()> request = {};  // this rank's request for the ticket; must neither block nor allocate
};

struct StepResult {
  int64_t step = 0;   // 1 for the first of the run
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the global batch, before the update
  double lr = 0;
  int64_t samples = 0;              // samples of the global batch
  std::string skipped;              // the reason to skip the update; empty: weights were updated
  Request request = Request::none;  // maximum of the requests of all ranks
  double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
};

}  // namespace ddp
