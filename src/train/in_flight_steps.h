// The steps that are issued and whose results are not read yet: at most kStepsInFlight, in order. Each has a copy of
// the step's block on the host.
#pragma once

#include "device/buffer.h"
#include "train/fences.h"
#include "train/replica.h"
#include "train/step_result.h"

#include <array>
#include <cstdint>

namespace ddp {

class InFlightSteps {
 public:
  InFlightSteps(Replica& replica, const StepConfig& config);
  ~InFlightSteps() { replica_.device.quiesce(); }
  InFlightSteps(const InFlightSteps&) = delete;
  InFlightSteps& operator=(const InFlightSteps&) = delete;

  bool full() const { return issued_ - retired_ == kStepsInFlight; }
  bool empty() const { return issued_ == retired_; }
  int64_t issued() const { return issued_; }
  int64_t retired() const { return retired_; }
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }  // of the retired steps

  // A new step, the one after issued(): its ticket, scalars and epoch go to the device. Returns its result, as far as
  // it is known.
  StepResult& push(const BatchPlan& plan, const OptimizerScalars& scalars);

  // Behind the work of the newest step: its block comes back.
  void download(double data_ms);

  void await_oldest();  // blocks until the device has ended the oldest step

  // The result of the oldest step, which has been awaited. Every rank gets the same result, or the same
  // CollectiveError: a rank is at another step (Exit::communication), or more steps in a row than skip_limit had NaN or
  // infinity (Exit::numerics).
  StepResult retire();

 private:
  struct Slot {
    Buffer memory;  // of the host
    StepResult result;
    int64_t expected_samples = 0;
  };

  Slot& slot_of(int64_t step) { return slots_[step % kStepSlots]; }
  static int fence_of(int64_t step) { return kStepFences + static_cast<int>(step % kStepSlots); }
  StepBlock block_of(const Slot& slot) const { return replica_.layout.on_host(slot.memory.data()); }
  void check_finite(const Ticket& ticket, StepResult& result);

  Replica& replica_;
  const int64_t skip_limit_;
  const std::function<Request()> request_;
  int64_t issued_, retired_, skipped_in_a_row_;
  std::array<Slot, kStepSlots> slots_;
};

}  // namespace ddp
