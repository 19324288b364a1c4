#include "data/loader.h"

#include "core/error.h"
#include "device/cpu/device.h"
#include "device/planning_memory.h"
#include "tests/spans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ddp {
namespace {

// Image i has i in its first eight bytes; its label is i mod 7. Reading image `broken` throws.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t broken = -1, std::chrono::microseconds delay = {})
      : size_(size), broken_(broken), delay_(delay) {}
  int64_t size() const override { return size_; }
  ImageShape image_shape() const override { return {2, 5, 1}; }
  int classes() const override { return 7; }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    const int64_t index = key.index;
    ++reads;
    if (on_disk || delay_.count() > 0) {
      const std::lock_guard lock(mutex_);
      if (on_disk && std::ranges::find(announced, index) == announced.end()) ++unannounced;
      threads_.insert(std::this_thread::get_id());
      readers = threads_.size();
    }
    while (readers < awaited) std::this_thread::yield();
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    if (index == broken_) throw std::runtime_error("sample is broken");
    if (index == unreadable) fail(Exit::data, "sample {} cannot be read", index);
    ASSERT_EQ(pixels.size(), 10u);
    std::memcpy(pixels.data(), &index, sizeof index);
  }
  int32_t label(int64_t index) const override { return static_cast<int32_t>(index % 7); }

  bool in_memory() const override { return !on_disk; }
  std::string being_read() const override { return "the file"; }
  void announce(std::span<const int64_t> indices) const override {
    const std::lock_guard lock(mutex_);
    announced.insert(announced.end(), indices.begin(), indices.end());
  }

  bool on_disk = false;
  int64_t unreadable = -1;
  size_t awaited = 0;  // threads: reading begins when they all read; needs a delay
  mutable std::atomic<int64_t> reads{0}, unannounced{0};
  mutable std::atomic<size_t> readers{0};  // threads
  mutable std::vector<int64_t> announced;

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
  int64_t size_, broken_;
  std::chrono::microseconds delay_;
};

const std::unique_ptr<Device> memory = make_cpu_device();

DistributedSampler sampler(int64_t samples, int64_t batch, int rank = 0, int world = 1, Order order = Order::shuffled,
                           int micro_batches = 1) {
  return {samples, batch, order, 1, rank, std::vector<double>(world, 1.0), micro_batches};
}

void expect_batch(const HostBatch& batch, const DistributedSampler& order, int64_t step, int micro = 0) {
  const int64_t steps = order.steps_per_epoch();
  const Range shard = order.shard(step % steps, micro);
  ASSERT_EQ(batch.plan.epoch, step / steps);
  ASSERT_EQ(batch.plan.step, step % steps);
  ASSERT_EQ(batch.plan.micro, micro);
  ASSERT_EQ(batch.plan.global_size, order.micro_batch(step % steps, micro).size());
  ASSERT_EQ(batch.plan.size, shard.size());
  for (int64_t i = 0; i < batch.plan.size; ++i) {
    int64_t id;
    std::memcpy(&id, batch.samples + 10 * i, sizeof id);
    ASSERT_EQ(id, order.sample(batch.plan.epoch, shard.begin + i));
    ASSERT_EQ(batch.ids[i], id);
    ASSERT_EQ(batch.labels[i], id % 7);
  }
}

TEST(Loader, YieldsTheSamplersShardsInOrderOverEpochs) {
  const Numbers data(103);
  for (int64_t batch : {1, 8, 50, 256})
    for (int world : {1, 2, 3})
      for (int rank = 0; rank < world; ++rank) {
        const DistributedSampler order = sampler(103, batch, rank, world);
        const int64_t first = order.steps_per_epoch() / 2, end = 3 * order.steps_per_epoch();
        for (int workers : {1, 2, 7}) {
          Loader loader(data, order, first, end, *memory, {.workers = workers});
          for (int64_t step = first; step < end; ++step) expect_batch(loader.next(), order, step);
        }
      }
}

// 103 samples in steps of 20: the last step of an epoch has 3, so some micro-batches leave a rank without samples.
TEST(Loader, BeginsWithTheFirstMicroBatchOfAStep) {
  const Numbers data(103);
  for (const int rank : {0, 1}) {
    const DistributedSampler order = sampler(103, 20, rank, 2, Order::shuffled, 3);
    Loader loader(data, order, 7, 13, *memory);
    for (int64_t step = 7; step < 13; ++step)
      for (const int micro : {0, 1, 2}) expect_batch(loader.next(), order, step, micro);
  }
}

// 103 samples in steps of 20: the sample before position 0 of a step is its last one, in the last step the third.
TEST(Loader, ReadsTheSampleBeforeEachShard) {
  Numbers data(103);
  data.on_disk = true;
  for (const int world : {1, 2, 3})
    for (int rank = 0; rank < world; ++rank)
      for (const int workers : {1, 3}) {
        const DistributedSampler order = sampler(103, 20, rank, world, Order::shuffled, 2);
        Loader loader(data, order, 4, 9, *memory, {.workers = workers, .sample_before = true});
        for (int64_t step = 4; step < 9; ++step)
          for (const int micro : {0, 1}) {
            const HostBatch& batch = loader.next();
            expect_batch(batch, order, step, micro);
            const int64_t size = batch.plan.size, first = step % 6 * 20, count = first == 100 ? 3 : 20;
            ASSERT_EQ(batch.stored, size == 0 ? 0 : size + 1);
            if (size == 0) continue;
            const int64_t at = order.shard(step % 6, micro).begin - first;
            const int64_t before = order.sample(batch.plan.epoch, first + (at + count - 1) % count);
            EXPECT_EQ(batch.ids[size], before);
            EXPECT_EQ(batch.labels[size], before % 7);
            EXPECT_EQ(batch.samples[10 * size], before);
          }
      }
  EXPECT_EQ(data.unannounced, 0);
}

TEST(Loader, BatchIsValidUntilTheNextCall) {
  const Numbers data(100'000);
  const DistributedSampler order = sampler(100'000, 500);
  Loader loader(data, order, 0, order.steps_per_epoch(), *memory);
  for (int64_t step = 0; step < order.steps_per_epoch(); ++step) {
    const HostBatch& batch = loader.next();
    if (step % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the thread fills every free slot
    expect_batch(batch, order, step);
  }
}

// A sample that this rank cannot read, or that another rank could not read, has no weight; the others are as before.
TEST(Loader, ExcludesWhatCannotBeRead) {
  Numbers data(20);
  data.unreadable = 13;
  PictureListBuilder list({"a"});
  for (int i = 0; i < 20; ++i) list.add(std::to_string(i), 0, i, 0);
  const PictureList pictures = std::move(list).finish();
  const auto order = sampler(20, 6);
  int64_t before = 0;
  for (const int workers : {1, 3}) {
    Exclusions exclusions(pictures, {{.picture = 4}});
    Loader loader(data, order, 0, 8, *memory, {.workers = workers, .exclusions = &exclusions, .sample_before = true});
    for (int64_t step = 0; step < 8; ++step) {
      const HostBatch& batch = loader.next();
      int64_t excluded = 0;
      for (int64_t i = 0; i < batch.plan.size; ++i) {
        const bool is_excluded = batch.ids[i] == 4 || batch.ids[i] == 13;
        excluded += is_excluded ? 1 : 0;
        EXPECT_EQ(batch.labels[i], is_excluded ? kExcludedLabel : batch.ids[i] % 7);
        EXPECT_EQ(batch.samples[10 * i], is_excluded ? 128 : batch.ids[i]);
      }
      EXPECT_EQ(batch.excluded, excluded);
      const int32_t last = batch.ids[batch.plan.size];
      EXPECT_EQ(batch.before_excluded, last == 4 || last == 13);
      EXPECT_EQ(batch.labels[batch.plan.size], batch.before_excluded ? kExcludedLabel : last % 7);
      before += batch.before_excluded ? 1 : 0;
    }
    ASSERT_EQ(exclusions.found().size(), 1u);
    EXPECT_EQ(exclusions.found()[0].reason, "sample 13 cannot be read");
    EXPECT_LE(exclusions.found()[0].step, 4);
    EXPECT_GT(before, 0);
  }
  Loader without(data, order, 0, 4, *memory);
  EXPECT_THROW(for (int step = 0; step < 4; ++step) without.next(), Error);
}

TEST(Loader, WaitsForASlowDataset) {
  const Numbers data(20, -1, std::chrono::microseconds(500));
  const DistributedSampler order = sampler(20, 4);
  Loader loader(data, order, 0, 5, *memory);
  for (int64_t step = 0; step < 5; ++step) expect_batch(loader.next(), order, step);
}

TEST(Loader, ReportsTheFileThatItWaitsFor) {
  const Numbers data(100, -1, std::chrono::milliseconds(20));
  std::vector<std::string> files;
  const auto order = sampler(100, 2);
  Loader loader(data, order, 0, 50, *memory,
                {.slow = {.report = [&](const std::string& file) { files.push_back(file); }}});
  loader.next();
  EXPECT_EQ(files, std::vector<std::string>{"the file"});
}

TEST(Loader, RecordsTheWorkOfEachThread) {
  const auto order = sampler(40, 8);
  for (const int workers : {1, 3}) {
    Numbers data(40, -1, std::chrono::microseconds(200));
    data.awaited = static_cast<size_t>(workers);
    testing::RecordedSpans spans;
    {
      Loader loader(data, order, 0, 5, *memory, {.workers = workers, .spans = &spans});
      for (int64_t step = 0; step < 5; ++step) loader.next();
    }
    std::set<int64_t> numbers;
    std::set<int> threads;
    for (const Span& span : spans.of(Track::loader)) {
      numbers.insert(span.number);
      threads.insert(span.lane);
      EXPECT_GE(span.end_ns - span.begin_ns, 200'000);
    }
    EXPECT_EQ(std::ssize(numbers), workers == 1 ? 5 : 40);  // batches, or samples
    EXPECT_EQ(*numbers.rbegin(), workers == 1 ? 4 : 39);
    EXPECT_EQ(spans.all().size(), numbers.size());
    EXPECT_EQ(std::ssize(threads), workers);
  }
}

TEST(Loader, ReadsAheadWithinItsRing) {
  const Numbers data(1'000'000);
  const DistributedSampler order = sampler(1'000'000, 100'000);  // ten batches of a million bytes give four slots
  Loader loader(data, order, 0, 10, *memory);
  while (data.reads < 400'000) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(data.reads, 400'000);
  for (int64_t step = 0; step < 10; ++step) loader.next();
  EXPECT_EQ(data.reads, 1'000'000);
}

TEST(Loader, EmptyShards) {
  const Numbers data(3);
  for (int rank = 0; rank < 8; ++rank) {
    const DistributedSampler order = sampler(3, 256, rank, 8);
    Loader loader(data, order, 0, 200, *memory, {.workers = 1 + rank % 3});
    for (int64_t step = 0; step < 200; ++step) expect_batch(loader.next(), order, step);
  }
}

// Slow reads of different length: a batch is complete before the one ahead of it.
TEST(Loader, WorkersShareOutTheSamplesOfABatch) {
  const Numbers data(60, -1, std::chrono::microseconds(2000));
  const DistributedSampler order = sampler(60, 3);
  Loader loader(data, order, 0, 20, *memory, {.keep = 3, .workers = 7});
  for (int64_t step = 0; step < 20; ++step) expect_batch(loader.next(), order, step);
  EXPECT_GT(data.readers, 3);
}

TEST(Loader, AnnouncesEachFileOnce) {
  const DistributedSampler order = sampler(60, 4);
  std::vector<int64_t> expected;
  for (int64_t i = 20; i < 60; ++i) expected.push_back(order.sample(0, i));
  std::ranges::sort(expected);
  for (int workers : {1, 2}) {
    Numbers data(60);
    data.on_disk = true;
    Loader loader(data, order, 5, 15, *memory, {.workers = workers});
    for (int64_t step = 5; step < 15; ++step) expect_batch(loader.next(), order, step);
    if (workers == 1) {  // of several threads, one may read a file while another announces it
      EXPECT_EQ(data.unannounced, 0);
    }
    std::ranges::sort(data.announced);
    EXPECT_EQ(data.announced, expected);
  }
}

TEST(Loader, EmptyRangesAndOneCallTooMany) {
  const Numbers data(10), nothing(0);
  const DistributedSampler order = sampler(10, 4), no_order = sampler(0, 4);
  EXPECT_THROW(Loader(data, order, 0, 0, *memory).next(), Error);
  EXPECT_THROW(Loader(data, order, 7, 7, *memory).next(), Error);
  EXPECT_THROW(Loader(nothing, no_order, 0, 0, *memory).next(), Error);
  EXPECT_THROW(Loader(nothing, no_order, 0, 1, *memory), Error);
  EXPECT_THROW(Loader(data, order, 2, 1, *memory), Error);
  Loader loader(data, order, 0, 1, *memory);
  loader.next();
  EXPECT_THROW(loader.next(), Error);
}

TEST(Loader, NextThrowsReadErrorsAfterTheGoodBatches) {
  for (int workers : {1, 5}) {
    const Numbers data(100, 57);
    const DistributedSampler order = sampler(100, 10, 0, 1, Order::sequential);
    Loader loader(data, order, 0, 10, *memory, {.workers = workers});
    for (int64_t step = 0; step < 5; ++step) expect_batch(loader.next(), order, step);
    EXPECT_THROW(loader.next(), std::runtime_error);
    EXPECT_THROW(loader.next(), std::runtime_error);
  }
}

TEST(Loader, MayBeDestroyedAtAnyTime) {
  const Numbers quick(1000), slow(1000, -1, std::chrono::microseconds(200)), broken(1000, 0);
  for (const Numbers* data : {&quick, &slow, &broken})
    for (int64_t taken : {0, 1, 2, 7}) {
      const DistributedSampler order = sampler(1000, 8, 0, 1, Order::sequential);
      Loader loader(*data, order, 0, 1000, *memory);
      for (int64_t i = 0; i < taken && data != &broken; ++i) loader.next();
      if (taken == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
}

TEST(Loader, DestructionDoesNotWaitForTheRestOfABatch) {
  const Numbers data(1'000'000, -1, std::chrono::microseconds(100));  // the batch takes 100 s
  const DistributedSampler order = sampler(1'000'000, 1'000'000);
  {
    Loader loader(data, order, 0, 1, *memory);
    while (data.reads == 0) std::this_thread::yield();
  }
  EXPECT_LT(data.reads, 1'000'000);
}

TEST(Loader, KeepsTheRequestedNumberOfBatches) {
  const Numbers data(200);
  const DistributedSampler order = sampler(200, 10);
  Loader loader(data, order, 0, 20, *memory, {.samples = true, .keep = 3});
  std::vector<HostBatch> kept;
  for (int step = 0; step < 20; ++step) {
    kept.push_back(loader.next());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time to overwrite a batch that is not kept
    for (int k = std::max(0, step - 2); k <= step; ++k) expect_batch(kept[k], order, k);
  }
}

TEST(Loader, TellsTheBytesOfItsRing) {
  const Numbers data(5000);
  for (const int64_t batch : {1, 6, 4000})
    for (const LoaderConfig& config :
         {LoaderConfig{}, LoaderConfig{.sample_before = true}, LoaderConfig{.samples = false, .keep = 3}}) {
      const DistributedSampler sampler(data.size(), batch, Order::sequential, 0, 0, {1.0});
      PlanningMemory ring;
      const Loader loader(data, sampler, 0, 0, ring, config);
      EXPECT_EQ(ring.peak(), Loader::ring_bytes(batch, data.image_shape().elements(), config)) << batch;
    }
}

TEST(Loader, ReadsNothingWithoutImages) {
  const Numbers data(20);
  const DistributedSampler order = sampler(20, 10);
  Loader loader(data, order, 0, 2, *memory, {.samples = false});
  const HostBatch& batch = loader.next();
  EXPECT_EQ(batch.samples, nullptr);
  EXPECT_EQ(batch.ids[3], order.sample(0, 3));
  loader.next();
  EXPECT_EQ(data.reads, 0);
}

}  // namespace
}  // namespace ddp
