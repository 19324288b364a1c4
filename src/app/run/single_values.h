// Batch norms that normalise a single value: one sample, of one position. The value becomes 0, whatever it was, so no
// layer before the batch norm learns from this sample. The shapes and the batch plan say so before the first step.
#pragma once

#include "nn/network.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// How the samples of an epoch are divided: the arguments of DistributedSampler.
struct BatchDivision {
  int64_t samples = 0;
  int64_t batch = 0;  // over all ranks and micro-batches
  int micro_batches = 1;
  std::vector<double> rank_weights;  // one for each rank
  bool sync_bn = false;
};

struct SingleValue {
  std::string layer;                          // first batch norm with one position
  int rank = 0;                               // first rank with such a part of a batch; with sync_bn all ranks are
  int64_t batch = 0;                          // samples of that step
  bool every_step = false;                    // false: the last step of an epoch only
  bool sync_bn_helps = false;                 // there is none in these steps with --sync-bn
  std::optional<int64_t> another_batch = {};  // a larger --batch-size with which there is none
};

// None where each batch norm has several values in each step of an epoch.
std::optional<SingleValue> find_single_value(const Network& network, const BatchDivision& division);

// What happens, and the remedies.
std::string explain(const SingleValue& found, const BatchDivision& division);

}  // namespace ddp
