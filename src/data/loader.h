// Reads a rank's batches ahead of their use, in its own thread, into a ring of slots that is allocated once. next()
// rethrows an exception of the thread.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "device/buffer.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ddp {

// A batch of plan.size samples in the loader's memory.
struct HostBatch {
  const uint8_t* images = nullptr;  // HWC; null if LoaderConfig::images is false
  const int32_t* labels = nullptr;
  const int32_t* ids = nullptr;  // indices in the data set
  BatchPlan plan = {};
};

struct LoaderConfig {
  bool images = true;  // whether images are read
  int keep = 1;        // number of batches that stay valid, the newest included
};

class Loader {
 public:
  // Yields the batches of steps [first, end), counted over all epochs from 0; each micro-batch is a batch. The ring
  // lies in `memory`. Data, sampler and memory outlive the loader.
  Loader(const Dataset& data, const DistributedSampler& sampler, int64_t first, int64_t end, Memory& memory,
         const LoaderConfig& config = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch. It stays valid until `keep` more calls. A call after the last batch throws Error(Exit::internal).
  const HostBatch& next();

 private:
  struct Slot {
    Buffer images, labels, ids;
    HostBatch batch;
  };

  int64_t slots() const { return static_cast<int64_t>(ring_.size()); }
  void run();
  bool wait_for_room();
  void fill(Slot& slot, int64_t number) const;

  const Dataset& data_;
  const DistributedSampler& sampler_;
  const int64_t first_, end_;  // micro-batches over all epochs
  const LoaderConfig config_;
  std::vector<Slot> ring_;  // batch i of [first_, end_) is in slot i mod slots()

  std::mutex mutex_;  // guards the members below, up to error_
  std::condition_variable room_, ready_;
  int64_t produced_ = 0, taken_ = 0, released_ = 0;  // batches, released_ <= taken_ <= produced_
  bool producer_sleeps_ = false;
  std::exception_ptr error_;

  std::atomic<bool> stop_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace ddp
