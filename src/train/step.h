// One optimizer step over the global batch, on every rank at once.
#pragma once

#include "ddp/ticket.h"
#include "train/fences.h"
#include "train/injection.h"
#include "train/phase_tracker.h"
#include "train/prefetcher.h"
#include "train/replica.h"

#include <array>
#include <cstdint>
#include <functional>
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
  int64_t samples = 0;              // of the global batch
  std::string skipped;              // why the weights were left alone; empty: they were updated
  Request request = Request::none;  // of any rank, to all
  double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
};

struct StepConfig {
  int micro_batches = 1;         // of a step, each with shards of its own; their gradients are added, and summed once
  int64_t skip_limit = 0;        // how many bad steps in a row are left out before one ends the run
  int64_t done = 0;              // steps of this run before the first one here
  int64_t skipped_in_a_row = 0;  // the last of them
  std::function<Request()> request =
      {};  // what this rank asks of all, by this step's ticket; neither blocks nor allocates
};

class Step {
 public:
  // All of these outlive the step; progress and injector may be null.
  explicit Step(Replica& replica, const StepConfig& config = {}, PhaseTracker* phases = nullptr,
                Injector* injector = nullptr);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // Issues the step and does not wait for its result; `next` gives this rank's batches, one for each micro-batch.
  // Returns the result of the step before the last, which every rank acts on alike: it throws where a rank has seen NaN
  // or infinity (Exit::numerics) or is at another step (Exit::communication); both are CollectiveErrors.
  std::optional<StepResult> run(const NextBatch& next, double lr);

  // Waits for the steps still in flight, in order.
  std::vector<StepResult> drain();

  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }  // of the steps whose results are known

 private:
  struct Pending {
    StepResult result;
    int64_t expected_samples = 0;
    Buffer frame;  // of the host
  };

  void begin(Pending& pending, const BatchPlan& batch, double lr);
  void compute(const DeviceBatch& batch, bool begins, bool ends);
  void update(int64_t samples);
  void enter(Phase phase, int64_t step);
  void launch(int bucket, const std::function<void()>& launch);
  void flag_nonfinite(const float* values, int64_t count, float what);
  StepResult settle();
  void settle_bad_step(const Ticket& ticket, StepResult& result);
  int fence_of(int64_t step) const { return kStepFences + static_cast<int>(step % kStepSlots); }

  Replica& replica_;
  const StepConfig config_;
  PhaseTracker* phases_;
  Injector* injector_;
  GradientReady announce_;
  std::vector<std::string> bucket_names_;  // for profilers
  int64_t issued_, settled_;
  int64_t skipped_in_a_row_;
  std::array<Pending, kStepSlots> pending_;
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ddp
