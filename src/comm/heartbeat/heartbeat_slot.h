// The heartbeat of one rank, in memory that threads or processes share. A reader sees a phase with its own start time
// or a later one, never with an earlier one: a rank that is on time never looks late.
#pragma once

#include "comm/heartbeat/heartbeat_table.h"
#include "core/stopwatch.h"

#include <atomic>
#include <cstdint>

namespace ddp {

struct HeartbeatSlot {  // one cache line
  std::atomic<int64_t> step, awaited, since_ns, alive_ns, awake_since_ns, heard_ns;
  std::atomic<int32_t> phase, pid, left;
  int32_t unused;

  void publish(int64_t new_step, int32_t new_phase) { publish(new_step, new_phase, steady_ns()); }
  void publish(int64_t new_step, int32_t new_phase, int64_t new_since_ns) {
    since_ns.store(new_since_ns, std::memory_order_relaxed);
    step.store(new_step, std::memory_order_relaxed);
    phase.store(new_phase, std::memory_order_release);
  }
  void publish_collective(int64_t awaited_step, int32_t collective) {
    awaited.store(awaited_step << kCollectiveBits | (collective & kCollectiveMask), std::memory_order_relaxed);
  }
  void sign_of_life() {
    const int64_t now_ns = steady_ns(), before_ns = alive_ns.exchange(now_ns, std::memory_order_relaxed);
    if (before_ns > 0 && now_ns - before_ns > kSuspended_ns) awake_since_ns = now_ns;
  }

  Heartbeat read() const {
    Heartbeat heartbeat;
    heartbeat.phase = phase.load(std::memory_order_acquire);
    heartbeat.step = step.load(std::memory_order_relaxed);
    heartbeat.since_ns = since_ns.load(std::memory_order_relaxed);
    heartbeat.alive_ns = alive_ns.load(std::memory_order_relaxed);
    const int64_t both = awaited.load(std::memory_order_relaxed);
    heartbeat.awaited_step = both >> kCollectiveBits;
    heartbeat.collective = static_cast<int32_t>(both & kCollectiveMask);
    return heartbeat;
  }

 private:
  static constexpr int kCollectiveBits = 20;
  static constexpr int64_t kCollectiveMask = (int64_t{1} << kCollectiveBits) - 1;
};
static_assert(sizeof(HeartbeatSlot) == 64 && std::atomic<int64_t>::is_always_lock_free &&
              std::atomic<int32_t>::is_always_lock_free);

}  // namespace ddp
