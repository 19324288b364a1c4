// Sums the flat gradient buffer over all ranks while it is being computed. A bucket is launched when all its parameters
// have been announced and every bucket before it has been launched: readiness enables, plan order decides.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"

#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ddp {

class Reducer {
 public:
  // `flat` has plan.total elements. Plan, communicator and buffer outlive the reducer.
  Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat);

  // Called with the number of each bucket whose turn it is, when its gradients are issued and final; it calls `launch`
  // once. Without one, buckets are just launched.
  using AroundLaunch = std::function<void(int bucket, const std::function<void()>& launch)>;
  void around_launch(AroundLaunch hook) { around_launch_ = std::move(hook); }

  void begin();  // a new step: nothing is announced

  // The gradient of `id` is issued and final for this step. The ticket is announced like a parameter, with the id
  // ticket(). Throws Error(Exit::internal) where it was announced before.
  void ready(ParameterId id);
  ParameterId ticket() const;

  // Orders later device work after all buckets. Throws Error(Exit::internal), naming it, where a parameter was never
  // announced.
  void finish();

  int launched() const { return launched_; }  // buckets launched in this step

 private:
  void launch_ready();

  const BucketPlan& plan_;
  Communicator& communicator_;
  std::span<float> flat_;
  std::vector<char> announced_;  // by parameter, the ticket last
  std::vector<int> missing_;     // announcements, by bucket
  AroundLaunch around_launch_;
  int launched_ = 0;
  Communicator::Sequence last_ = 0;
};

}  // namespace ddp
