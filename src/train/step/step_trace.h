// The times of a step's layers and buckets on the device, as spans. Each boundary is a timestamp of the device, which a
// graph may capture; the host reads the timestamps when it retires the step.
#pragma once

#include "core/span_recorder.h"
#include "device/buffer.h"
#include "device/device.h"
#include "train/step/fences.h"
#include "train/step/replica.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddp {

class StepTrace final : public RangeObserver {
 public:
  // Observes the ranges of the replica's device and the readiness of its buckets. Replica and recorder outlive it.
  StepTrace(Replica& replica, SpanRecorder& spans, int micro_batches);
  ~StepTrace() override;
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  // The work of a micro-batch begins; `key` is that of its graph. `alone`: no other step is in flight.
  void begin_work(GraphKey key, int64_t step, bool alone);
  void end_work();  // closes the open ranges; a second call does nothing

  void end_step(int64_t step);  // all work of the step is issued: downloads its timestamps
  void retired(int64_t step);   // the device has done the step: records its spans

  // RangeObserver
  void begin(const char* name) noexcept override;
  void end() noexcept override;

 private:
  static constexpr int kMicroBatches = 8;  // the first ones, and the last one of a step are recorded
  static constexpr int kStamps = 16384;    // of the ranges of a micro-batch; later ranges are not recorded
  enum class Mark : int8_t { begin, end, ready };
  struct Label {
    Mark mark;
    int bucket = 0;         // of `ready`
    const char* name = "";  // of `begin`
  };
  using Labels = std::vector<Label>;  // of the stamps of a micro-batch, in order
  struct Slot {
    Buffer stamps;                      // on the host
    std::vector<const Labels*> labels;  // by recorded micro-batch
    bool recorded = false;
  };

  void stamp(const Label& label);
  void record_layers(const Slot& slot, int64_t step);
  void record_buckets(int64_t step);
  void compare_clocks();
  Slot& slot_of(int64_t step) { return slots_[step % kStepSlots]; }

  int64_t* stamps_of(const Buffer& stamps, size_t place) const { return stamps.as<int64_t>() + place * all_stamps_; }

  Replica& replica_;
  SpanRecorder& spans_;
  const int per_step_;                                // collectives
  const size_t all_stamps_;                           // of the ranges and of the buckets of a micro-batch
  const int micro_batches_, recorded_micro_batches_;  // of a step; recorded ones
  const Buffer stamps_;
  std::array<Slot, kStepSlots> slots_;
  std::map<GraphKey, Labels> labels_;

  Labels* current_ = nullptr;  // null: outside of recorded work
  bool fresh_ = false;         // the next stamp begins the labels anew: a replayed graph keeps them
  int place_ = 0, depth_ = 0, range_stamps_ = 0;
  int64_t first_counted_ = 0;  // a step that began alone, and the collectives completed before it
  Communicator::Sequence completed_before_ = 0;
  int64_t device_offset_ns_ = 0;   // what to add to the device's clock to get the host's
  std::vector<int64_t> ready_ns_;  // by collective, of the step that is being recorded; host clock
  std::vector<std::string> bucket_names_;
};

}  // namespace ddp
