// Sharing independent items among the threads of a rank. Items write to different places, so which thread does which
// does not show in the result. The calling thread polls the device after each of its items; with one thread no other
// exists.
#pragma once

#include "device/device.h"

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ddp {

class ThreadPool;

// Copies share their threads. One call runs at a time.
struct Workers {
  Workers(Device& device_of_rank, int thread_count);

  Device& device;
  int threads;

  // item(i) for i in [0, count).
  template <class F>
  void each(int64_t count, F&& item) const {
    using Item = std::remove_reference_t<F>;
    run(
        count, [](void* f, int64_t i) { (*static_cast<Item*>(f))(i); }, &item);
  }

  // span(first, end) for pieces of [0, count) of 64 KiB of floats.
  template <class F>
  void spans(int64_t count, F&& span) const {
    constexpr int64_t kPiece = 16384;
    each((count + kPiece - 1) / kPiece,
         [&](int64_t i) { span(i * kPiece, count < (i + 1) * kPiece ? count : (i + 1) * kPiece); });
  }

 private:
  void run(int64_t count, void (*item)(void*, int64_t), void* context) const;

  std::shared_ptr<ThreadPool> pool_;  // null with one thread
};

}  // namespace ddp
