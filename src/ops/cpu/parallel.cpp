#include "ops/cpu/parallel.h"

#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace ddp {
namespace {

void pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#endif
}

// Waits until `value` is not `old`: spins for about 20 us, then sleeps.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < 500; ++i, pause())
    if (value.load(std::memory_order_acquire) != old) return;
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

// The worker threads, without the caller's thread.
//
// cursor_ holds the job number (upper 32 bits) and the index of the next item (lower 32 bits). A thread takes an item
// with a compare-and-swap that increments the cursor. The caller waits for items, not for threads: a thread that the
// system has preempted does not delay the job. (OpenMP's barrier would wait for it, for whole time slices.)
//
// Between jobs, the cursor is closed: its index is larger than any item. It is closed before the fields of the next job
// are written. If a late thread reads new fields with an old cursor, its compare-and-swap fails.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
    } catch (...) {  // no more threads
      stop();
      throw;
    }
  }

  ~ThreadPool() { stop(); }

  void run(int64_t count, void (*item)(void*, int64_t), void* context, const Device& device) {
    const uint64_t job = (cursor_.load(std::memory_order_relaxed) | kClosed) + 1;
    finished_.store(0, std::memory_order_relaxed);
    count_.store(static_cast<uint64_t>(count), std::memory_order_release);
    item_.store(item, std::memory_order_release);
    context_.store(context, std::memory_order_release);
    cursor_.store(job, std::memory_order_release);
    cursor_.notify_all();

    std::exception_ptr error;  // of a poll; it is rethrown when all items are done
    while (work()) {
      if (error) continue;
      try {
        device.poll();
      } catch (...) {
        error = std::current_exception();
      }
    }
    for (int64_t done; (done = finished_.load(std::memory_order_acquire)) != count;) wait_for_change(finished_, done);
    cursor_.store(job | kClosed, std::memory_order_release);
    if (error) std::rethrow_exception(error);
  }

 private:
  static constexpr uint64_t kClosed = 0xffffffff, kJob = kClosed + 1;

  void stop() {
    stop_.store(true, std::memory_order_relaxed);
    cursor_.fetch_add(kJob, std::memory_order_release);
    cursor_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // Takes and runs one item. Returns false if no item is left.
  bool work() {
    for (;;) {
      uint64_t cursor = cursor_.load(std::memory_order_acquire);
      const uint64_t count = count_.load(std::memory_order_acquire), index = cursor & kClosed;
      const auto item = item_.load(std::memory_order_acquire);
      void* const context = context_.load(std::memory_order_acquire);
      if (index >= count) return false;
      if (!cursor_.compare_exchange_weak(cursor, cursor + 1, std::memory_order_acq_rel)) continue;
      item(context, static_cast<int64_t>(index));
      if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<int64_t>(count)) finished_.notify_one();
      return true;
    }
  }

  // Reads the cursor before `stop_`: stop() changes them in the other order, so either the thread sees the
  // stop, or the cursor differs from `seen`.
  void serve() {
    for (;;) {
      const uint64_t seen = cursor_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      while (work()) {
      }
      wait_for_change(cursor_, seen);
    }
  }

  std::atomic<uint64_t> cursor_ = kClosed;
  std::atomic<uint64_t> count_ = 0;
  std::atomic<void (*)(void*, int64_t)> item_ = nullptr;
  std::atomic<void*> context_ = nullptr;
  std::atomic<int64_t> finished_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

Workers::Workers(Device& device_of_rank, int thread_count, InstructionSet set)
    : device(device_of_rank), threads(thread_count), kernels(kernels_of(set)) {
  if (threads > 1) pool_ = std::make_shared<ThreadPool>(threads - 1);
}

void Workers::run(int64_t count, void (*item)(void*, int64_t), void* context) const {
  if (pool_ && count > 1) return pool_->run(count, item, context, device);
  for (int64_t i = 0; i < count; ++i) {
    item(context, i);
    device.poll();
  }
}

}  // namespace ddp
