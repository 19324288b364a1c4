// The issued steps whose results the host has not read yet: at most kStepsInFlight, in order. Each has a copy of the
// StepBlock on the host.
#pragma once

#include "device/buffer.h"
#include "train/step/fences.h"
#include "train/step/replica.h"
#include "train/step/step_result.h"

#include <array>
#include <cstdint>
#include <functional>

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
  int64_t skipped_in_a_row() const { return skipped_in_a_row_; }  // up to retired()

  // Begins step issued() + 1: uploads its ticket, scalars, epoch, mix and the ids of its first micro-batch. Returns its
  // result with step and epoch; the caller sets lr; download() and retire() set the other fields. Excluded samples of
  // a micro-batch get no weight. Unless the replica excludes samples, this step and all later ones change nothing.
  StepResult& push(const DeviceBatch& batch, const OptimizerScalars& scalars);

  void add(const DeviceBatch& batch);  // of a micro-batch behind the first: its ids, excluded samples and weights

  // Downloads the block of the newest step, after all of its work was issued.
  void download(const DataTimes& data);

  void await_oldest();  // blocks until the device has finished the oldest step

  // Returns the result of the oldest step; call await_oldest() first. Every rank gets the same loss, samples, request
  // and `skipped`, or throws the same CollectiveError: Exit::communication if a rank is at another step or samples are
  // missing; Exit::numerics if the loss is not finite although all gradients are, or if more than skip_limit
  // consecutive steps were bad. Without samples a step is skipped, which no limit counts.
  StepResult retire();

 private:
  struct Slot {
    Buffer memory;  // of the block, on the host
    StepResult result;
    DataTimes data;
    int64_t expected_samples = 0;
    float seen_samples = 0;    // of this rank, with weight
    double label_weights = 0;  // of this rank's samples
  };

  Slot& slot_of(int64_t step) { return slots_[step % kStepSlots]; }
  static int fence_of(int64_t step) { return kStepFences + static_cast<int>(step % kStepSlots); }
  StepBlock block_of(const Slot& slot) const { return replica_.layout.on_host(slot.memory.data()); }
  void exclude(const DeviceBatch& batch);
  void add_label_weights(const DeviceBatch& batch);
  void set_times(const StepBlock& block, Slot& slot);
  void check_finite(const Ticket& ticket, StepResult& result);

  Replica& replica_;
  const int64_t skip_limit_;
  const std::function<Request()> request_;
  int64_t issued_, retired_, skipped_in_a_row_;
  bool unread_ = false;      // a sample of this rank could not be read, and the run ends
  int64_t last_end_ns_ = 0;  // device time of the end of the last retired step; 0: none yet
  std::array<Slot, kStepSlots> slots_;
};

}  // namespace ddp
