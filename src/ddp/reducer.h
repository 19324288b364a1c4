// Sums the flat gradient buffer over all ranks while it is being computed. A bucket is launched when all its parameters
// have been announced and every bucket before it has been launched: readiness enables, plan order decides.
#pragma once

#include "comm/communicator.h"
#include "ddp/bucket_plan.h"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace ddp {

// How gradients travel. As f32 and not scattered, the tail rides in the last bucket; else it is a collective of its
// own, the last one, f32 and never scattered.
struct GradientWire {
  DType dtype = DType::f32;
  bool scatter = false;  // afterwards each rank has the sums of its parts (parts_of) only, and anything elsewhere

  // For bf16: plan.padded elements of the device to travel in, at the offsets of the gradients, and what issues the
  // conversion of that many elements from there on, to the shadow before a bucket is launched, back when it is summed.
  void* shadow = nullptr;
  std::function<void(int64_t offset, int64_t count)> to_shadow = {}, from_shadow = {};
};

class Reducer {
 public:
  // `flat` has plan.total elements. Plan, communicator and buffers outlive the reducer.
  Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat, GradientWire wire = {});

  // Called with the number of each bucket whose turn it is, when its gradients are issued and final; it calls `launch`
  // once. Without one, buckets are just launched.
  using AroundLaunch = std::function<void(int bucket, const std::function<void()>& launch)>;
  void around_launch(AroundLaunch hook) { around_launch_ = std::move(hook); }

  void begin();  // a new step: nothing is announced

  // The gradient of `id` is issued and final for this step. The tail is announced like a parameter, with the id tail().
  // Throws Error(Exit::internal) where it was announced before.
  void ready(ParameterId id);
  ParameterId tail() const;

  // Orders later device work after all sums. Throws Error(Exit::internal), naming it, where a parameter was never
  // announced.
  void finish();

  int collectives() const { return static_cast<int>(missing_.size()); }  // of a step: the buckets, then the tail's own
  int launched() const { return launched_; }                             // of them in this step
  bool tail_rides() const { return tail_rides_; }                        // in the last bucket
  const GradientWire& wire() const { return wire_; }

  // One of the collectives by itself, between steps, waited for: to measure it.
  void run_alone(int collective);

 private:
  void launch_ready();
  Communicator::Sequence start(int collective);

  const BucketPlan& plan_;
  Communicator& communicator_;
  std::span<float> flat_;
  const GradientWire wire_;
  const bool tail_rides_;
  std::vector<Part> summed_;                      // by bucket: what this rank has the sum of
  std::vector<char> announced_;                   // by parameter, the tail last
  std::vector<int> missing_;                      // announcements, by collective
  std::vector<Communicator::Sequence> sequence_;  // the same
  AroundLaunch around_launch_;
  int launched_ = 0;
};

}  // namespace ddp
