// One optimizer step over the global batch, on every rank at once.
#pragma once

#include "train/feed.h"
#include "train/replica.h"
#include "train/watchdog.h"
#include "train/work.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

struct StepResult {
  int64_t step = 0;   // 1 for the first of the run
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the global batch, before the update
  double lr = 0;
  int64_t samples = 0;  // of the global batch
  double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
};

class Step {
 public:
  // The watchdog, which may be null, and the replica outlive the step.
  explicit Step(Replica& replica, Watchdog* watchdog = nullptr);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Issues the step for this rank's shard and does not wait for its result. Returns that of the step before the last,
  // which every rank acts on alike: it throws where a rank has seen NaN or infinity (Exit::numerics) or is at another
  // step (Exit::communication); both are SharedErrors.
  std::optional<StepResult> run(const Shard& shard, double lr, double data_ms);

  // Waits for the steps still in flight, in order.
  std::vector<StepResult> drain();

 private:
  struct Pending {
    StepResult result;
    int64_t expected_samples = 0;
    Buffer frame;  // of the host
  };

  void compute(const Shard& shard);
  void compute_gradients(const Shard& shard);
  void check_bucket(int bucket);
  StepResult settle();
  int fence_of(int64_t step) const { return kStepFences + static_cast<int>(step % kStepSlots); }

  Replica& replica_;
  Watchdog* watchdog_;
  Announce announce_;
  std::vector<std::string> bucket_names_;  // for profilers
  int64_t issued_ = 0, settled_ = 0;
  std::array<Pending, kStepSlots> pending_;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace ddp
