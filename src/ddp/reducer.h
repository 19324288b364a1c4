// Sums the flat gradient buffer over all ranks while it is being computed. A bucket is launched when all its gradients
// are ready and every bucket before it has been launched: readiness enables, plan order decides.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ddp {

struct ReducerConfig {
  // Whether each rank then has the sums of its partitions only (partitions_of), and anything elsewhere.
  bool sharded = false;
  // Whether one collective sums the last bucket and the trailer. Otherwise, and where sharded, the trailer has a
  // collective of its own behind the buckets; it is never sharded.
  bool trailer_in_last_bucket = true;
};

// Called once for each launch and for the wait behind them, with a number: the collectives count from 0, the wait has
// the number collectives(). It calls `run` once.
using LaunchHook = std::function<void(int number, const std::function<void()>& run)>;

class Reducer {
 public:
  // `flat` has plan.total elements. Plan, communicator and buffer outlive the reducer.
  Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat, const ReducerConfig& config = {});

  // A new step: no gradient is ready.
  void begin();
  // The gradient of `id` is issued and final for this step. Throws Error(Exit::internal) on the second call.
  void ready(ParameterId id);
  // Launches the trailer, and orders later device work after all sums. Throws Error(Exit::internal) that names a
  // parameter whose gradient was not ready.
  void finish();

  const LaunchHook& launch_hook() const { return hook_; }
  void set_launch_hook(LaunchHook hook) { hook_ = std::move(hook); }

  bool sharded() const { return config_.sharded; }
  bool trailer_in_last_bucket() const { return config_.trailer_in_last_bucket; }
  // Collectives of a step: the buckets, and the trailer's own; and how many of them this step has launched.
  int collectives() const { return static_cast<int>(pending_.size()); }
  int launched() const { return launched_; }

  // Starts one collective between steps and waits for it: to measure it.
  void run_alone(int collective) { communicator_.wait(start(collective)); }

 private:
  void announce(ParameterId id, int collective);
  void run(int number, const std::function<void()>& work);
  Communicator::Sequence start(int collective);
  ParameterId trailer() const { return static_cast<ParameterId>(plan_.parameter_counts.size()); }

  const BucketPlan& plan_;
  Communicator& communicator_;
  const std::span<float> flat_;
  const ReducerConfig config_;
  std::vector<char> announced_;  // by parameter, the trailer last
  std::vector<int> pending_;     // announcements that a collective waits for
  LaunchHook hook_;
  Communicator::Sequence last_ = 0;
  int launched_ = 0;
};

}  // namespace ddp
