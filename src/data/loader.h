// Reads a rank's batches before they are used. The loader's threads fill a ring of slots, which is allocated once. The
// bytes of a batch do not depend on the number of threads. next() rethrows an exception of a thread, except where a
// sample that cannot be read becomes an excluded one, with the label kExcludedLabel: a grey image, or tokens 0.
#pragma once

#include "core/span_recorder.h"
#include "data/dataset.h"
#include "data/exclusions.h"
#include "data/sampler.h"
#include "device/buffer.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddp {

// A batch of plan.size samples in the loader's memory, and the sample before them if the loader reads it.
struct HostBatch {
  const uint8_t* samples = nullptr;  // as Dataset::read() gives them; null if LoaderConfig::samples is false
  const int32_t* labels = nullptr;
  const int32_t* ids = nullptr;  // indices in the data set
  int64_t excluded = 0;          // samples with the label kExcludedLabel, without that of the sample before
  bool before_excluded = false;  // whether the sample before has it
  BatchPlan plan = {};
  int64_t stored = 0;  // samples in memory: plan.size, or one more
};

// `report` gets the file that is being read (Dataset::being_read) when a call of next() has waited for so long.
struct SlowData {
  std::chrono::milliseconds patience{0};
  std::function<void(const std::string& file)> report = {};  // null: no report
};

struct LoaderConfig {
  bool samples = true;  // whether samples are read
  int keep = 1;         // number of batches that stay valid, the newest included
  int workers = 1;      // threads; one thread reads whole batches, several share out the samples of each batch
  SlowData slow = {};
  Exclusions* exclusions = nullptr;  // null: Error(Exit::data) of a sample ends the reading
  // Whether a batch that is not empty has one sample more, behind the others: the one before its shard
  // (DistributedSampler::before_shard).
  bool sample_before = false;
  SpanRecorder* spans = nullptr;  // records each piece of a thread's work; null: none
};

class Loader {
 public:
  // Yields the batches of steps [first, end), counted over all epochs from 0; each micro-batch is a batch. The ring
  // lies in `memory`. Data, sampler and memory outlive the loader.
  Loader(const Dataset& data, const DistributedSampler& sampler, int64_t first, int64_t end, Memory& memory,
         const LoaderConfig& config = {});
  ~Loader();

  // Bytes of the ring. `largest`: samples of this rank's largest batch; `bytes`: of a sample.
  static int64_t ring_bytes(int64_t largest, int64_t bytes, const LoaderConfig& config);

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. It stays valid until `keep` more calls. A call after the last batch throws Error(Exit::internal).
  const HostBatch& next();

 private:
  struct Slot {
    Buffer samples, labels, ids;
    HostBatch batch;
    int64_t begin = 0;    // position of the first sample in the order of the epoch
    int64_t before = 0;   // position of the sample before
    int64_t issued = 0;   // samples that a worker has taken
    int64_t missing = 0;  // samples that are not yet read; 1 for an empty batch until a worker has seen it
    std::vector<std::pair<int64_t, std::string>> unread;  // samples of the batch that cannot be read, and why
  };
  struct Work {  // samples [first, end) of a batch
    int64_t batch = 0, first = 0, end = 0;
  };

  int64_t slots() const { return static_cast<int64_t>(ring_.size()); }
  Slot& slot(int64_t batch) { return ring_[(batch - first_) % slots()]; }
  void run(int thread);
  void stop();
  std::optional<Work> take_work();
  Slot& newest() { return slot(first_ + begun_ - 1); }
  void begin_batch();
  static int64_t position(const Slot& slot, int64_t i) {  // of sample i in the order of the epoch
    return i < slot.batch.plan.size ? slot.begin + i : slot.before;
  }
  void read(const Work& work);
  void exclude(Slot& slot) const;
  void record(const Work& work, int thread, int64_t begin_ns) const;
  void announce_after(int64_t batch);
  void finish(const Work& work);
  void fail(const Work& work, std::exception_ptr error);

  const Dataset& data_;
  const DistributedSampler& sampler_;
  const int64_t first_, end_;  // micro-batches over all epochs
  const LoaderConfig config_;
  std::vector<Slot> ring_;  // batch i of [first_, end_) is in slot i mod slots()

  std::mutex mutex_;  // guards the members below, and the counts of the slots
  std::condition_variable room_, ready_;
  int64_t begun_ = 0, produced_ = 0, taken_ = 0, released_ = 0;  // batches, released_ <= taken_ <= produced_ <= begun_
  bool workers_rest_ = false;                                    // from a full ring until half of it is free
  std::exception_ptr error_;                                     // of `failed_`, the first samples that failed
  Work failed_;
  std::atomic<bool> stop_{false};  // written under the mutex

  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace ddp
