// The configuration of steps and the result of a step.
#pragma once

#include "ddp/step_speed.h"
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

// A step's waits for data on the host, in ms: before its first micro-batch, and between its micro-batches.
struct DataTimes {
  double before_ms = 0, inside_ms = 0;
};

// The times of a step follow one another: waiting for data, computing, waiting for collectives. On a device that is not
// the host, the host's waits overlap with the device's work; there times.data is what the device idles before the step,
// at most the host's wait before it.
struct StepResult {
  int64_t step = 0;   // 1 for the first of the run
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the global batch, weighted if labels have weights, before the update
  double lr = 0;
  int64_t samples = 0;              // samples of the global batch, without excluded ones
  int64_t sequence_length = 0;      // tokens that are predicted in a sample; 0: samples are images
  int64_t excluded = 0;             // excluded samples of the global batch
  bool unread = false;              // a rank could not read a sample, and the run ends: not a step of the run
  std::string skipped;              // the reason to skip the update; empty: weights were updated
  Request request = Request::none;  // maximum of the requests of all ranks
  StepTimes times = {};             // of this rank
  int64_t begin_ns = 0;             // when the step began on the device, by its clock
  // As in the StepBlock, the former summed over ranks, for the gradient with the right divisor; see SpeedMeter.
  double local_squares = 0, squares = 0;

  double samples_per_second() const { return 1000 * static_cast<double>(samples) / times.total(); }
  int64_t tokens() const { return samples * sequence_length; }
  double tokens_per_second() const { return 1000 * static_cast<double>(tokens()) / times.total(); }
};

}  // namespace ddp
