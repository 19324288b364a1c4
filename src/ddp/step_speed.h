// What limits the speed of a training, and what more ranks would bring. Pure functions of measured times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Times of a rank's step, or means or sums of several, in ms. Waiting for data, computing, and waiting for collectives
// follow one another.
struct StepTimes {
  double data = 0, compute = 0, exposed_comm = 0;
  double total() const { return data + compute + exposed_comm; }
  StepTimes& operator+=(const StepTimes& other) {
    data += other.data;
    compute += other.compute;
    exposed_comm += other.exposed_comm;
    return *this;
  }
};

struct StepSpeed {
  std::vector<StepTimes> ranks;  // one or more
  double communication = 0;      // ms of the collectives of a step's gradients, alone; 0 for one rank
  // Whether StepTimes::compute has other collectives in it: those of sync batch norm, or of the weights with ZeRO. Then
  // the limits are not known.
  bool computes_with_collectives = false;
  int64_t batch = 0;                       // samples of a full step over all ranks
  int micro_batches = 1;                   // of a step
  std::optional<double> noise_scale = {};  // in samples (noise_scale.h); none: not known
  std::vector<double> samples = {};        // of each rank in a step
  bool balanced = false;                   // whether the shards follow the speeds (--rank-weights auto)

  // The rank that the others wait for: with the longest time of data and compute.
  int slowest() const;
  const StepTimes& critical() const { return ranks[slowest()]; }  // its times are those of the step
  // What a rank computes in the time of data and compute, without its waits for other ranks; 0 if it has no samples.
  double samples_per_second(int rank) const;
  // How much longer than the mean of all ranks it takes, as a share.
  double imbalance() const;
  // The communication that no rank hides, in ms. What a rank waits beyond that, it waits for another rank.
  double exposed() const;
  double hidden() const;  // share of the communication; 1 without communication
};

// A part of the slowest rank's step, in ms.
struct SpeedLimit {
  enum class Kind : uint8_t { computing, data, communication, slow_rank };
  Kind kind;
  double ms;
};

// The largest first: each cause of at least a tenth of the step, or else computing alone. A slow rank's part is the
// time that it computes longer than the mean of the others.
std::vector<SpeedLimit> speed_limits(const StepSpeed& speed);

// The time in ms of a step of the same global batch on twice the ranks, each with as many cores or GPUs as now. Equal
// shards get smaller, at least one sample each; what the slowest rank computes longer than the others stays. The volume
// of a ring's all-reduce, 2 (n - 1) / n of the gradients, grows. The share of it that is exposed now stays exposed, and
// so does what exceeds the backward pass, two thirds of the computing, of the last micro-batch. Not for one rank.
double step_on_twice_the_ranks(const StepSpeed& speed);

// What limits the run, what more ranks would bring, and whether a larger batch would help, a sentence each. `hosts`:
// the host of each rank.
std::vector<std::string> explain(const StepSpeed& speed, std::span<const std::string> hosts);

}  // namespace ddp
