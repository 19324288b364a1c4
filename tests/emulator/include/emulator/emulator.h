// The emulator's interface for tests. Any thread may call these functions.
//
// Work is a graph of tasks. A stream's tasks run in order; only events order tasks of different streams. No task runs
// when it is issued. A host thread that waits runs ready tasks, in an order that the seed decides, until the awaited
// task is done. A query runs 0 to 3 tasks.
//
// Several host threads make the order depend on chance, except if they take turns.
#pragma once

#include "emulator/api.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace emulator {

void set_seed(uint64_t seed);      // default 0; the same seed and the same calls of one thread give the same schedule
void set_device_count(int count);  // default 1
void set_capability(int capability);  // of all devices; default 90, for 9.0
void set_memory(size_t bytes);        // per device; cudaMalloc fails beyond it
void set_cache(int bytes);            // L2, per device; default 50 MiB

// The next random number of the seed's sequence.
uint64_t draw();

// Adds host work to the stream like a kernel; a capture records it too. The work must not wait for other threads. It
// runs when ready() is true, which must stay true; other streams continue before that.
void enqueue(cudaStream_t stream, std::function<void()> work, std::function<bool()> ready = {});

// As enqueue(), for a call of a library that computes.
void call_library(cudaStream_t stream, std::function<void()> work);

// Kernels, calls of libraries that compute, copies and fills that were issued so far, by all threads and to captures
// too.
struct Issued {
  int64_t kernels = 0, programmatic = 0, library_calls = 0, copies = 0;  // programmatic: of the kernels
};
Issued issued();

// With false, what is issued from now on only counts: kernels, calls of libraries and fills do nothing, and memory of
// the device is not filled at its allocation. So the work of a large network can be counted.
void compute(bool on);

// Runs body(0) to body(count - 1), each in a thread; body must not throw. One of these threads runs at a time. It
// passes the turn only where it waits for work or asks for its state, in wait_until() and in yield(); the seed decides
// which thread is the next. So the seed alone decides the order of all work.
void run_in_turns(int count, const std::function<void(int)>& body);
void wait_until(const std::function<bool()>& done);  // done() must not call the emulator
void yield();

// If no thread that takes turns can go on, `unblock` is called once; if still none can, the program ends. It must not
// call the emulator.
void when_blocked(std::function<void()> unblock);

}  // namespace emulator
