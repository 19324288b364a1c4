// What one run has measured on its machine: what a prediction for other numbers of ranks follows from. A run writes it
// to profile.json in its folder.
#pragma once

#include "ddp/quantiles.h"
#include "ddp/step_costs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

inline constexpr const char* kProfileFile = "profile.json";

// The memory of a rank, in bytes.
struct RankMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

struct RunProfile {
  std::string network, device, precision;  // for people: any text
  bool on_gpu = false;

  int64_t ranks = 1, hosts = 1;
  int64_t ranks_per_host = 1;  // on the host with the most
  int64_t batch = 1;           // samples of a step over all ranks
  int64_t shard = 1;           // samples of the largest shard of a micro-batch
  int64_t micro_batches = 1;   // of a step
  bool zero = false;           // the optimizer's state is sharded
  // Whether compute_ms contains collectives (StepSpeed::computes_with_collectives).
  bool computes_with_collectives = false;

  std::vector<int64_t> parameters;  // elements of the trained parameters in flat-buffer order
  int64_t trailer = 0;              // elements that a step sums besides gradients
  int64_t gradient_bytes = 4;       // of an element in a collective; 1: between hosts, in int8 without the scales

  StepCosts costs;
  double compute_ms = 0;              // of a step: the median of the rank with the largest; optimizer included
  std::vector<Quantile> spread = {};  // of the computing time of single steps of all ranks, over the rank's median
  double data_ms = 0;                 // the mean wait for data in a step, of the rank with the largest
  double read_ms = 0;                 // one thread reads one sample; 0: samples are in memory
  int64_t workers = 1;                // threads of a rank that read
  RankMemory memory = {};
  std::optional<double> noise_scale = {};  // in samples (noise_scale.h); none: not known
};

std::string to_json(const RunProfile& profile);

// `subject`: the name of the text in messages. Throws Error(Exit::data) with subject and key where a value is missing,
// of another type, out of its range or does not fit the others.
RunProfile profile_from(std::string_view text, const std::string& subject);

}  // namespace ddp
