// Where a run stands, besides its weights: a few counters, and what it must have in common with the run that goes on
// from there. The order of samples, the learning rate and dropout follow from these.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace ddp {

struct RunState {
  int64_t step = 0;              // optimizer steps done, skipped ones included
  int64_t epoch = 0;             // from 0, of the next step
  int64_t cursor = 0;            // samples of that epoch that have been seen, over all ranks
  int64_t skipped = 0;           // of the steps: bad ones that left the weights alone
  int64_t skipped_in_a_row = 0;  // of them, the last ones
  bool evaluation_due = false;   // the last step ended an epoch that is still to be evaluated
  int64_t samples = 0;           // seen so far, over all ranks and epochs
  double train_seconds = 0;      // evaluations not included
  double accuracy = -1;          // of the last evaluation; -1: none yet
  double best_accuracy = -1;     // of all evaluations

  std::map<std::string, std::string> affects_results = {};  // options and data that change what is computed
  std::map<std::string, std::string> affects_rounding =
      {};                                            // what changes rounding only: ranks, precision, buckets, versions
  std::map<std::string, std::string> autotune = {};  // of algorithms, by who chose; opaque
};

// As JSON for people too. Numbers come back bit for bit.
std::string to_json(const RunState& state);

// Keys that it does not know are ignored. Throws Error(Exit::data) that names the file and the key where one is missing
// or has a value that it cannot have.
RunState run_state_from_json(const std::string& text, const std::string& file);

}  // namespace ddp
