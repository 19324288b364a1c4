// Polling with a time limit.
#pragma once

#include "device/cuda/check.h"

#include <chrono>
#include <span>
#include <thread>

namespace ddp {

// Polls done() until it is true; returns false after `time`. Yields the core between polls, after 1 ms sleeps.
template <class Done>
bool poll_for(std::chrono::nanoseconds time, Done&& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kSleep{1};
  const auto begin = Clock::now();
  while (!done()) {
    const auto waited = Clock::now() - begin;
    if (waited >= time) return false;
    if (waited < kSleep)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(kSleep);
  }
  return true;
}

// Waits up to `time` until all streams are idle. Returns false on a timeout or a CUDA error.
inline bool idle_within(std::chrono::nanoseconds time, std::span<const cudaStream_t> streams) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (const cudaStream_t stream : streams) {
    cudaError_t state = cudaErrorNotReady;
    poll_for(end - std::chrono::steady_clock::now(),
             [&] { return (state = cudaStreamQuery(stream)) != cudaErrorNotReady; });
    (void)cudaGetLastError();  // clears the error: the next launch would report it
    if (state != cudaSuccess) return false;
  }
  return true;
}

}  // namespace ddp
