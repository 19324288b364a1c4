#include "train/observers/layer_clock.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddp {

LayerClock::LayerClock(Replica& replica, const DeviceBatch& batch, std::span<const PlannedLayer> layers)
    : replica_(replica),
      batch_(batch),
      stamps_(replica.device, place(static_cast<int>(layers.size()), kForwardBegin) * sizeof(int64_t)),
      read_(replica.device.host_memory(), stamps_.bytes()) {
  for (size_t i = 0; i < layers.size(); ++i) layer_of_[layers[i].range] = static_cast<int>(i);
  replica.device.observe_ranges(this);
}

LayerClock::~LayerClock() {
  replica_.device.quiesce();  // the device may still write timestamps
  replica_.device.observe_ranges(nullptr);
}

void LayerClock::run() {
  replica_.model.forward_backward(batch_, [this](ParameterId) {
    if (layer_ >= 0 && !std::exchange(announced_, true)) stamp(place(layer_, kAnnounced));
  });
  stamp(kEnd);
}

void LayerClock::download() {
  replica_.device.download(read_.data(), stamps_.data(), stamps_.bytes());
  replica_.device.synchronize();
}

double LayerClock::ms(size_t from, size_t to) const {
  const auto* const ns = read_.as<int64_t>();
  return std::max(0.0, 1e-6 * static_cast<double>(ns[to] - ns[from]));
}

// An error of the device shows again in the next call of the pass.
void LayerClock::begin(const char* name) noexcept try {
  const auto found = layer_of_.find(name);
  if (found == layer_of_.end()) {
    in_backward_ = std::string_view(name) == "backward";
    return stamp(in_backward_ ? kBackward : kForward);
  }
  layer_ = found->second;
  announced_ = false;
  stamp(place(layer_, in_backward_ ? kBackwardBegin : kForwardBegin));
} catch (...) {
}

void LayerClock::end() noexcept try {
  if (layer_ < 0) return;  // the range of a whole
  stamp(place(std::exchange(layer_, -1), in_backward_ ? kBackwardEnd : kForwardEnd));
} catch (...) {
}

}  // namespace ddp
