#include "workers.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace emulator {
namespace {

struct Workers {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::function<void()>> queue;
  size_t idle = 0;
};

// Never destroyed: the threads run until the process ends.
Workers& workers() {
  static Workers& workers = *new Workers;
  return workers;
}

void serve() {
  std::unique_lock lock(workers().mutex);
  for (;;) {
    ++workers().idle;
    workers().arrived.wait(lock, [] { return !workers().queue.empty(); });
    --workers().idle;
    std::function<void()> work = std::move(workers().queue.front());
    workers().queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace

void run_on_worker(std::function<void()> work) {
  const std::lock_guard lock(workers().mutex);
  workers().queue.push_back(std::move(work));
  if (workers().idle < workers().queue.size())
    std::thread(serve).detach();
  else
    workers().arrived.notify_one();
}

}  // namespace emulator
