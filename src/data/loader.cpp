#include "data/loader.h"

#include "core/error.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>

namespace ddp {
namespace {

// Four slots, more for small batches: a larger ring costs less than waking the loader's thread for every small batch,
// because it may share a core with the computing thread.
constexpr int64_t kMinSlots = 4, kMaxSlots = 64, kRingBytes = 1 << 20;

}  // namespace

Loader::Loader(const Dataset& data, const DistributedSampler& sampler, int64_t first, int64_t end, Memory& memory,
               const LoaderConfig& config)
    : data_(data),
      sampler_(sampler),
      first_(first * sampler.micro_batches()),
      end_(end * sampler.micro_batches()),
      config_(config) {
  DDP_EXPECT(0 <= first && first <= end && (first == end || sampler.steps_per_epoch() > 0));
  DDP_EXPECT(sampler.samples() <= data.size());
  const std::vector<int64_t> sizes = sampler.local_batch_sizes();
  const int64_t largest = sizes.empty() ? 0 : sizes.back();
  const int64_t bytes = largest * data.image_shape().elements();
  ring_.resize(std::clamp(kRingBytes / std::max<int64_t>(bytes, 1), kMinSlots, kMaxSlots) + config.keep - 1);
  for (Slot& slot : ring_) {
    if (config.images) slot.images = Buffer(memory, bytes);
    slot.labels = Buffer(memory, largest * sizeof(int32_t));
    slot.ids = Buffer(memory, largest * sizeof(int32_t));
  }
  if (first < end) thread_ = std::thread(&Loader::run, this);
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_one();
  if (thread_.joinable()) thread_.join();
}

// Frees the slot of the oldest kept batch. Wakes a sleeping producer only when half of the ring is free: one wake-up
// then gives several batches.
const HostBatch& Loader::next() {
  std::unique_lock lock(mutex_);
  DDP_EXPECT(taken_ < end_ - first_);
  released_ = std::max<int64_t>(0, taken_ + 1 - config_.keep);
  if (producer_sleeps_ && 2 * (produced_ - released_) <= slots()) {
    producer_sleeps_ = false;
    room_.notify_one();
  }
  ready_.wait(lock, [&] { return taken_ < produced_ || error_; });
  if (taken_ == produced_) std::rethrow_exception(error_);
  return ring_[taken_++ % slots()].batch;
}

void Loader::run() {
  pthread_setname_np(pthread_self(), "loader");
  try {
    for (int64_t batch = first_; batch < end_ && wait_for_room(); ++batch) {
      fill(ring_[(batch - first_) % slots()], batch);
      const std::lock_guard lock(mutex_);
      ++produced_;
      ready_.notify_one();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    ready_.notify_one();
  }
}

// Returns false if the loader is being destroyed.
bool Loader::wait_for_room() {
  std::unique_lock lock(mutex_);
  producer_sleeps_ = produced_ - released_ == slots();
  room_.wait(lock, [&] { return stop_ || !producer_sleeps_; });
  return !stop_;
}

void Loader::fill(Slot& slot, int64_t number) const {
  const BatchPlan plan = sampler_.plan(number);
  const int64_t begin = sampler_.shard(plan.step, plan.micro).begin;
  const size_t image = static_cast<size_t>(data_.image_shape().elements());
  for (int64_t i = 0; i < plan.size && !stop_; ++i) {
    const int64_t id = sampler_.sample(plan.epoch, begin + i);
    if (config_.images) data_.read(id, {slot.images.as<uint8_t>() + i * image, image});
    slot.labels.as<int32_t>()[i] = data_.label(id);
    slot.ids.as<int32_t>()[i] = static_cast<int32_t>(id);
  }
  slot.batch = {.images = slot.images.as<uint8_t>(),
                .labels = slot.labels.as<int32_t>(),
                .ids = slot.ids.as<int32_t>(),
                .plan = plan};
}

}  // namespace ddp
