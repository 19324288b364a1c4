// The threads of a rank and the kernels of its instruction set. Workers runs independent items on the threads. Items
// write to different places, so the result does not depend on which thread runs an item. The calling thread works too,
// and polls the device after each of its items.
#pragma once

#include "device/device.h"
#include "ops/cpu/simd/kernels.h"

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ddp {

class ThreadPool;

// Copies share their threads. One call at a time. With one thread, no other thread is started.
struct Workers {
  Workers(Device& device_of_rank, int thread_count, InstructionSet set = best_instruction_set());

  Device& device;
  int threads;
  const Kernels& kernels;

  // Calls item(i) for i in [0, count) and waits for all items. Items must not throw. An error of a poll is rethrown at
  // the end.
  template <class F>
  void each(int64_t count, F&& item) const {
    using Item = std::remove_reference_t<F>;
    run(
        count, [](void* f, int64_t i) { (*static_cast<Item*>(f))(i); }, &item);
  }

  // Calls span(first, end) for pieces of [0, count), each of 64 KiB of floats.
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
