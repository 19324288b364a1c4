#include "data/loader.h"

#include "core/error.h"
#include "core/stopwatch.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

namespace ddp {
namespace {

// Four slots, more for small batches: a larger ring costs less than waking the loader's threads for every small batch,
// because they may share a core with the computing thread.
constexpr int64_t kMinSlots = 4, kMaxSlots = 64, kRingBytes = 1 << 20;

constexpr int64_t kAnnounced = 4;  // batches whose files are announced ahead

int64_t slots_for(int64_t bytes, int keep) {
  return std::clamp(kRingBytes / std::max<int64_t>(bytes, 1), kMinSlots, kMaxSlots) + keep - 1;
}

}  // namespace

Loader::Loader(const Dataset& data, const DistributedSampler& sampler, int64_t first, int64_t end, Memory& memory,
               const LoaderConfig& config)
    : data_(data),
      sampler_(sampler),
      first_(first * sampler.micro_batches()),
      end_(end * sampler.micro_batches()),
      config_(config) {
  DDP_EXPECT(0 <= first && first <= end && (first == end || sampler.steps_per_epoch() > 0));
  DDP_EXPECT(sampler.samples() <= data.size() && config.workers >= 1);
  const std::vector<int64_t> sizes = sampler.local_batch_sizes();
  const int64_t largest = sizes.empty() ? 0 : sizes.back() + (config.sample_before ? 1 : 0);
  const int64_t bytes = largest * data.sample_bytes();
  ring_.resize(slots_for(bytes, config.keep));
  for (Slot& slot : ring_) {
    if (config.samples) slot.samples = Buffer(memory, bytes);
    slot.labels = Buffer(memory, largest * sizeof(int32_t));
    slot.ids = Buffer(memory, largest * sizeof(int32_t));
  }
  if (first == end) return;
  try {
    for (int i = 0; i < config.workers; ++i) threads_.emplace_back(&Loader::run, this, i);
  } catch (...) {
    stop();
    throw;
  }
}

Loader::~Loader() { stop(); }

int64_t Loader::ring_bytes(int64_t largest, int64_t bytes, const LoaderConfig& config) {
  const int64_t samples = largest + (config.sample_before ? 1 : 0);
  const int64_t numbers = samples * 2 * static_cast<int64_t>(sizeof(int32_t));
  return slots_for(samples * bytes, config.keep) * (numbers + (config.samples ? samples * bytes : 0));
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// Frees the slot of the oldest kept batch. Wakes resting workers only when half of the ring is free: one wake-up then
// gives several batches.
const HostBatch& Loader::next() {
  std::unique_lock lock(mutex_);
  DDP_EXPECT(taken_ < end_ - first_);
  released_ = std::max<int64_t>(0, taken_ + 1 - config_.keep);
  if (workers_rest_ && 2 * (produced_ - released_) <= slots()) {
    workers_rest_ = false;
    room_.notify_all();
  }
  const auto failed = [&] { return error_ && first_ + produced_ == failed_.batch; };
  const auto ready = [&] { return taken_ < produced_ || failed(); };
  if (config_.slow.report && !ready_.wait_for(lock, config_.slow.patience, ready)) {
    lock.unlock();
    config_.slow.report(data_.being_read());
    lock.lock();
  }
  ready_.wait(lock, ready);
  if (taken_ == produced_) std::rethrow_exception(error_);
  Slot& slot = ring_[taken_++ % slots()];
  lock.unlock();  // the batch is complete: no worker touches its slot
  if (config_.exclusions && (!slot.unread.empty() || !config_.exclusions->empty())) exclude(slot);
  return slot.batch;
}

// A sample that another rank could not read is excluded too, even if this rank has read it ahead.
void Loader::exclude(Slot& slot) const {
  const uint8_t unread = data_.sequence_length() > 0 ? 0 : 128;
  Exclusions& exclusions = *config_.exclusions;
  HostBatch& batch = slot.batch;
  const int64_t step = batch.plan.epoch * sampler_.steps_per_epoch() + batch.plan.step + 1;
  for (const auto& [sample, reason] : slot.unread) exclusions.found(data_.picture(batch.ids[sample]), step, reason);
  const auto bytes = static_cast<size_t>(data_.sample_bytes());
  for (int64_t i = 0; i < batch.stored; ++i) {
    if (!exclusions.contains(data_.picture(batch.ids[i]))) continue;
    std::fill_n(slot.samples.as<uint8_t>() + i * bytes, bytes, unread);
    slot.labels.as<int32_t>()[i] = kExcludedLabel;
    if (i < batch.plan.size)
      ++batch.excluded;
    else
      batch.before_excluded = true;
  }
}

void Loader::run(int thread) {
  pthread_setname_np(pthread_self(), "loader");
  while (const auto work = take_work()) {
    try {
      const bool recorded = config_.spans && config_.spans->on();
      const int64_t begin_ns = recorded ? steady_ns() : 0;
      read(*work);
      if (recorded) record(*work, thread, begin_ns);
      finish(*work);
    } catch (...) {
      fail(*work, std::current_exception());
    }
  }
}

// Before finish(), which gives the slot to the reader of the batch.
void Loader::record(const Work& work, int thread, int64_t begin_ns) const {
  const bool whole_batch = config_.workers == 1;
  const Slot& read = ring_[(work.batch - first_) % slots()];
  config_.spans->record(
      {.track = Track::loader,
       .lane = thread,
       .name = whole_batch ? "read batch" : "read sample",
       .begin_ns = begin_ns,
       .end_ns = steady_ns(),
       .number = whole_batch || work.end == work.first ? work.batch : read.ids.as<int32_t>()[work.first]});
}

// The next samples in the order of the run. Waits where a batch begins and the ring is full. Returns nothing after the
// last batch, after an error, and if the loader is being destroyed.
std::optional<Loader::Work> Loader::take_work() {
  std::unique_lock lock(mutex_);
  while (begun_ == 0 || newest().issued == newest().batch.stored) {
    if (stop_ || error_ || first_ + begun_ == end_) return std::nullopt;
    if (begun_ - released_ == slots()) workers_rest_ = true;
    if (!workers_rest_) {
      begin_batch();
      break;
    }
    room_.wait(lock, [&] { return stop_ || !workers_rest_; });
  }
  if (stop_ || error_) return std::nullopt;
  Slot& open = newest();
  const int64_t size = open.batch.stored, first = open.issued;
  open.issued = config_.workers == 1 ? size : std::min(first + 1, size);
  return Work{.batch = first_ + begun_ - 1, .first = first, .end = open.issued};
}

void Loader::begin_batch() {
  const int64_t number = first_ + begun_++;
  const BatchPlan plan = sampler_.plan(number);
  Slot& s = slot(number);
  s.batch = {.samples = s.samples.as<uint8_t>(),
             .labels = s.labels.as<int32_t>(),
             .ids = s.ids.as<int32_t>(),
             .plan = plan,
             .stored = plan.size + (config_.sample_before && plan.size > 0 ? 1 : 0)};
  s.unread.clear();
  s.begin = sampler_.shard(plan.step, plan.micro).begin;
  s.before = sampler_.before_shard(plan.step, plan.micro);
  s.issued = 0;
  s.missing = std::max<int64_t>(s.batch.stored, 1);  // an empty batch is one piece of work
}

void Loader::read(const Work& work) {
  if (work.first == 0 && config_.samples && !data_.in_memory()) announce_after(work.batch);
  Slot& s = slot(work.batch);
  const int64_t epoch = s.batch.plan.epoch;
  const auto bytes = static_cast<size_t>(data_.sample_bytes());
  for (int64_t i = work.first; i < work.end && !stop_; ++i) {
    const int64_t id = sampler_.sample(epoch, position(s, i));
    try {
      if (config_.samples) data_.read({.index = id, .epoch = epoch}, {s.samples.as<uint8_t>() + i * bytes, bytes});
    } catch (const Error& e) {
      if (!config_.exclusions || e.code() != Exit::data) throw;
      const std::lock_guard lock(mutex_);
      s.unread.emplace_back(i, e.what());
    }
    s.labels.as<int32_t>()[i] = data_.label(id);
    s.ids.as<int32_t>()[i] = static_cast<int32_t>(id);
  }
}

// Announces the batch that is kAnnounced batches ahead; at the start of the run all batches up to that one.
void Loader::announce_after(int64_t batch) {
  for (int64_t b = batch == first_ ? batch : batch + kAnnounced; b <= std::min(batch + kAnnounced, end_ - 1); ++b) {
    const BatchPlan plan = sampler_.plan(b);
    const Range shard = sampler_.shard(plan.step, plan.micro);
    std::vector<int64_t> ids;
    for (int64_t i = shard.begin; i < shard.end; ++i) ids.push_back(sampler_.sample(plan.epoch, i));
    if (config_.sample_before && plan.size > 0)
      ids.push_back(sampler_.sample(plan.epoch, sampler_.before_shard(plan.step, plan.micro)));
    data_.announce(ids);
  }
}

void Loader::finish(const Work& work) {
  const std::lock_guard lock(mutex_);
  slot(work.batch).missing -= std::max<int64_t>(work.end - work.first, 1);
  const int64_t before = produced_;
  while (produced_ < begun_ && slot(first_ + produced_).missing == 0) ++produced_;
  if (produced_ > before) ready_.notify_one();
}

void Loader::fail(const Work& work, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_ || std::tie(work.batch, work.first) < std::tie(failed_.batch, failed_.first)) {
    error_ = std::move(error);
    failed_ = work;
  }
  ready_.notify_one();
}

}  // namespace ddp
