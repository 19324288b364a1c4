// The emulator's interface for tests. Any thread may call these functions.
//
// Work is a graph of tasks. A stream's tasks run in order; only events order tasks of different streams. No task runs
// when it is issued. A host thread that waits runs ready tasks, in an order that the seed decides, until the awaited
// task is done. A query runs 0 to 3 tasks.
#pragma once

#include "emulator/api.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulator {

void set_seed(uint64_t seed);      // default 0; the same seed and the same calls of one thread give the same schedule
void set_device_count(int count);  // default 1
void set_memory(size_t bytes);     // per device; cudaMalloc fails beyond it

// The next random number of the seed's sequence.
uint64_t draw();

// Adds host work to the stream like a kernel; a capture records it too. The work may wait for other threads; other
// streams continue during the wait.
void enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace emulator
