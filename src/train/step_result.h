// How steps are made, and the result of one.
#pragma once

#include "ddp/ticket.h"

#include <cstdint>
#include <functional>
#include <string>

namespace ddp {

struct StepConfig {
  int micro_batches = 1;                  // of a step; their gradients are added up, and summed over ranks once
  int64_t skip_limit = 0;                 // bad steps in a row that are skipped before the next one ends the run
  int64_t done = 0;                       // steps of this run before the first one here
  int64_t skipped_in_a_row = 0;           // the last of these
  std::function<Request()> request = {};  // this rank's request to all, for the ticket; neither blocks nor allocates
};

struct StepResult {
  int64_t step = 0;   // 1 for the first of the run
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the global batch, before the update
  double lr = 0;
  int64_t samples = 0;              // of the global batch
  std::string skipped;              // why the weights were left alone; empty: they were updated
  Request request = Request::none;  // of any rank, to all
  double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
};

}  // namespace ddp
