// The timestamps of a pass at the boundaries of its layers, on the device.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "nn/layer_work.h"
#include "ops/device_batch.h"
#include "train/step/replica.h"

#include <cstddef>
#include <map>
#include <span>

namespace ddp {

class LayerClock final : public RangeObserver {
 public:
  enum Whole { kForward, kBackward, kEnd, kWholes };
  // kAnnounced: when the layer first announces a gradient.
  enum OfLayer { kForwardBegin, kForwardEnd, kBackwardBegin, kAnnounced, kBackwardEnd, kOfLayer };

  // Observes the ranges of the replica's device. The arguments outlive the clock; `layers` are the model's.
  LayerClock(Replica& replica, const DeviceBatch& batch, std::span<const PlannedLayer> layers);
  ~LayerClock() override;
  LayerClock(const LayerClock&) = delete;
  LayerClock& operator=(const LayerClock&) = delete;

  void run();       // issues a pass
  void download();  // its timestamps; waits for the device

  // The place of a timestamp; that of a Whole is its value. `layer` is a place in `layers`.
  static size_t place(int layer, OfLayer part) { return kWholes + static_cast<size_t>(kOfLayer * layer + part); }
  double ms(size_t from, size_t to) const;  // of the downloaded pass; 0 at least

  // RangeObserver
  void begin(const char* name) noexcept override;
  void end() noexcept override;

 private:
  void stamp(size_t place) { replica_.device.timestamp(stamps_.as<int64_t>() + place); }

  Replica& replica_;
  const DeviceBatch& batch_;
  const Buffer stamps_, read_;
  std::map<const char*, int> layer_of_;  // by the pointer of the range's name
  int layer_ = -1;                       // whose range is open; -1: none
  bool in_backward_ = false, announced_ = false;
};

}  // namespace ddp
