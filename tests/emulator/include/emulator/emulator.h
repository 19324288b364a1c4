// What tests may ask of the emulator. Everything here may be called from any thread.
//
// Work is a graph of tasks: a stream's tasks run in order, events order tasks of different streams, and nothing else
// does. Nothing runs when it is issued. When a host thread waits, it runs tasks that are ready, picked by the seed,
// until what it waits for is done; a query runs none, one or a few.
#pragma once

#include "emulator/api.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulator {

void set_seed(uint64_t seed);      // 0 at first; the same seed and calls of one thread give the same schedule
void set_device_count(int count);  // 1 at first
void set_memory(size_t bytes);     // of each device; cudaMalloc refuses more

// The next of a sequence that the seed fixes.
uint64_t draw();

// Adds host work to the stream as if it were a kernel, capturable too. It may wait for other threads: meanwhile other
// streams go on.
void enqueue(cudaStream_t stream, std::function<void()> work);

}  // namespace emulator
