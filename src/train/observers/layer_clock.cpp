#include "train/observers/layer_clock.h"

#include "core/error.h"

#include <algorithm>
#include <string_view>

namespace ddp {

LayerClock::LayerClock(Replica& replica, const DeviceBatch& batch, std::span<const PlannedLayer> layers)
    : replica_(replica), batch_(batch) {
  for (size_t i = 0; i < layers.size(); ++i) layer_of_[layers[i].range] = static_cast<int>(i);
  replica.device.observe_ranges(this);
  try {
    run();
  } catch (...) {
    replica.device.observe_ranges(nullptr);
    throw;
  }
  stamps_ = Buffer(replica.device, places_.size() * sizeof(int64_t));
  read_ = Buffer(replica.device.host_memory(), stamps_.bytes());
}

LayerClock::~LayerClock() {
  replica_.device.quiesce();  // the device may still write timestamps
  replica_.device.observe_ranges(nullptr);
}

void LayerClock::run() {
  next_ = 0;
  replica_.model.forward_backward(batch_, [](ParameterId) {});
  stamp(kNone);
}

std::vector<double> LayerClock::download() {
  replica_.device.download(read_.data(), stamps_.data(), stamps_.bytes());
  replica_.device.synchronize();
  const auto* const ns = read_.as<int64_t>();
  const auto ms = [&](size_t from, size_t to) { return std::max(0.0, 1e-6 * static_cast<double>(ns[to] - ns[from])); };
  std::vector<double> times(place(static_cast<int>(layer_of_.size()), kForward), 0.0);
  for (size_t i = 0; i + 1 < places_.size(); ++i)
    if (places_[i] != kNone) times[places_[i]] += ms(i, i + 1);
  times[kPass] = ms(0, places_.size() - 1);
  return times;
}

void LayerClock::stamp(size_t place) {
  if (!stamps_.data()) return places_.push_back(place);
  DDP_EXPECT(next_ < places_.size());
  replica_.device.timestamp(stamps_.as<int64_t>() + next_++);
}

// An error of the device shows again in the next call of the pass. A range inside that of a layer is
// kWeightGradientRange, and begins with it.
void LayerClock::begin(const char* name) noexcept try {
  if (!open_.empty() && open_.back() >= 0) {
    open_.push_back(open_.back());
    if (!stamps_.data()) places_.back() = place(open_.back(), kWeightGradient);
    return;
  }
  const auto found = layer_of_.find(name);
  open_.push_back(found == layer_of_.end() ? -1 : found->second);
  if (open_.back() >= 0) return stamp(place(open_.back(), in_backward_ ? kInputGradient : kForward));
  in_backward_ = std::string_view(name) == "backward";
  stamp(in_backward_ ? kLoss : kInput);
} catch (...) {
}

void LayerClock::end() noexcept try {
  if (open_.empty()) return;
  const int layer = open_.back();
  open_.pop_back();
  if (layer < 0) return;  // the range of a whole
  const bool inside = !open_.empty() && open_.back() == layer;
  stamp(inside ? place(layer, kInputGradient) : kNone);
} catch (...) {
}

}  // namespace ddp
