// The times of the layers in a pass, on the device.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "nn/layer_work.h"
#include "ops/device_batch.h"
#include "train/step/replica.h"

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace ddp {

class LayerClock final : public RangeObserver {
 public:
  enum Whole { kInput, kLoss, kPass, kWholes };  // before the first layer of the forward and of the backward pass; all
  // kInputGradient: what the backward pass of the layer does after kWeightGradientRange, or all if it has none.
  enum OfLayer { kForward, kWeightGradient, kInputGradient, kOfLayer };

  // Observes the ranges of the replica's device, and makes a pass to learn their order. The arguments outlive the
  // clock; `layers` are the model's.
  LayerClock(Replica& replica, const DeviceBatch& batch, std::span<const PlannedLayer> layers);
  ~LayerClock() override;
  LayerClock(const LayerClock&) = delete;
  LayerClock& operator=(const LayerClock&) = delete;

  void run();  // issues a pass

  // The place of a time; that of a Whole is its value. `layer` is a place in `layers`.
  static size_t place(int layer, OfLayer part) { return kWholes + static_cast<size_t>(kOfLayer * layer + part); }
  // Milliseconds of the last pass, by place. A layer that runs in slices has the sum. Waits for the device.
  std::vector<double> download();

  // RangeObserver
  void begin(const char* name) noexcept override;
  void end() noexcept override;

 private:
  static constexpr size_t kNone = ~size_t{0};

  void stamp(size_t place);

  Replica& replica_;
  const DeviceBatch& batch_;
  std::map<const char*, int> layer_of_;  // by the pointer of the range's name
  std::vector<size_t> places_;           // of the time that each timestamp begins; kNone: of none
  Buffer stamps_, read_;                 // empty in the first pass
  size_t next_ = 0;                      // timestamp
  std::vector<int> open_;                // layers of the open ranges; -1: the range of a whole
  bool in_backward_ = false;
};

}  // namespace ddp
