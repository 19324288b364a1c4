// Waiting for what others do, with an end.
#pragma once

#include "device/cuda/check.h"

#include <chrono>
#include <span>
#include <thread>

namespace ddp {

// Asks until `done`, or until the time is up: then it is false. It gives the core away between, and soon sleeps.
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

// Whether all streams were without work, and without error, within the time.
inline bool idle_within(std::chrono::nanoseconds time, std::span<const cudaStream_t> streams) {
  const auto end = std::chrono::steady_clock::now() + time;
  for (const cudaStream_t stream : streams) {
    cudaError_t state = cudaErrorNotReady;
    poll_for(end - std::chrono::steady_clock::now(),
             [&] { return (state = cudaStreamQuery(stream)) != cudaErrorNotReady; });
    (void)cudaGetLastError();  // else the next launch would report it
    if (state != cudaSuccess) return false;
  }
  return true;
}

}  // namespace ddp
