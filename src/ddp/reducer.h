// Sums the flat gradient buffer over all ranks while it is being computed. A bucket is launched when all its gradients
// are ready and every bucket before it has been launched: readiness enables, plan order decides.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ddp {

struct ReducerConfig {
  // Reduce-scatter: afterwards each rank has the sums of its partitions (partitions_of); other gradients are undefined.
  bool sharded = false;
  // One collective sums the last bucket and the trailer. If false, or with `sharded` or `residual`, the trailer has
  // its own all-reduce after the buckets.
  bool trailer_in_last_bucket = true;
  // DeviceSpan::residual of plan.padded gradients: they are summed in int8, and the trailer is not. It may change
  // between steps, but not from something to nothing. Null: no sum is in int8.
  const Residual* residual = nullptr;
};

// Called for each launch, with the number of the collective from 0, and for the wait after all launches, with the
// number collectives(). The hook calls `run` once.
using LaunchHook = std::function<void(int number, const std::function<void()>& run)>;

class Reducer {
 public:
  // `flat` has plan.total elements. Plan, communicator and buffer outlive the reducer.
  Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat, const ReducerConfig& config = {});

  // Begins a step: no gradient is ready.
  void begin();
  // The gradient of `id` is issued and final for this step. Throws Error(Exit::internal) on a second call in the step.
  void ready(ParameterId id);
  // Launches the collective of the trailer and orders later device work after all sums. Throws Error(Exit::internal)
  // that names the parameter if a gradient is not ready.
  void finish();

  // `ready` is called when all gradients of a collective are ready, which may be before its launch.
  void set_ready_hook(std::function<void(int collective)> ready) { ready_hook_ = std::move(ready); }

  const LaunchHook& launch_hook() const { return hook_; }
  void set_launch_hook(LaunchHook hook) { hook_ = std::move(hook); }

  bool sharded() const { return config_.sharded; }
  bool trailer_in_last_bucket() const { return config_.trailer_in_last_bucket; }
  // Number of collectives of a step: one for each bucket, then the trailer's own, if any.
  int collectives() const { return static_cast<int>(pending_.size()); }

  // The plan has other buckets from now on. Between steps.
  void buckets_changed();

  // Runs one collective between steps and waits for it, to measure it.
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
  std::vector<int> pending_;     // by collective: announcements that it waits for
  std::function<void(int)> ready_hook_;
  LaunchHook hook_;
  Communicator::Sequence last_ = 0;
  int launched_ = 0;  // number of collectives that this step has launched
};

}  // namespace ddp
