// Runs independent items on several threads, for work that takes long beside starting a thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ddp {

// Runs job(thread, item) once for each item below `items`, on at most `threads` threads, or on fewer if the system
// starts no more; the calling thread is number 0. After an exception no further item begins; when all threads have
// ended, it throws the first exception.
inline void run_items(int threads, int64_t items, const std::function<void(int thread, int64_t item)>& job) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;  // guards `error`
  std::exception_ptr error;
  const auto run = [&](int thread) {
    try {
      for (int64_t item; (item = next++) < items;) job(thread, item);
    } catch (...) {
      next = items;
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (int thread = 1; thread < std::min<int64_t>(threads, items); ++thread) others.emplace_back(run, thread);
    } catch (const std::system_error&) {  // the threads so far do all items
    }
    run(0);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace ddp
