// Streams, events and captures behind CUDA's handles. The scheduler's mutex guards them.
#pragma once

#include "emulator/api.h"
#include "emulator/language.h"
#include "scheduler.h"

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace emulator {

// One step of a capture and of its graph.
struct Recorded {
  Work work;
  std::set<size_t> after;  // indices of earlier steps
  CUstream_st* lane;       // identifies the branch; never dereferenced
};
using Recording = std::vector<Recorded>;

struct Capture {
  CUstream_st* origin;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  bool invalid = false;
  Recording steps;
  std::set<CUstream_st*> streams;
};
using CapturePtr = std::shared_ptr<Capture>;

struct Domain {
  TaskPtr legacy;  // the last task of the default stream
};
DomainPtr this_domain();

// Adds work to the stream, or to the stream's capture. A capturing stream cannot return a task or wait for one. Callers
// of this and the following functions hold the scheduler's lock.
cudaError_t submit(cudaStream_t stream, Work work, TaskPtr* task = nullptr, std::vector<TaskPtr> after = {});
// A kernel. With `early` its launch is programmatic: if the stream's last work is a kernel, `early` runs when that one
// may begin, else when all earlier work is done. `run` follows both.
cudaError_t submit_kernel(cudaStream_t stream, std::function<void()> run, std::function<void()> early = {});
// A task that follows all work which the domain has issued.
TaskPtr last_of_domain(const DomainPtr& domain);

// Whether work computes; see emulator::compute(). Any thread may call these.
bool computes();
void count_kernel(bool programmatic);
void count_copy();

// For calls that are not permitted during a capture: returns an error and invalidates the capture.
cudaError_t refuse_in_capture();
cudaError_t invalidate(const CapturePtr& capture, cudaError_t error);

bool is_live(CUstream_st* stream);  // true for the default stream
bool is_live(CUevent_st* event);

// Stores the error for cudaGetLastError, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace emulator

struct CUstream_st {
  emulator::DomainPtr domain;
  bool blocking;  // ordered with the default stream
  int priority;
  uint64_t urgency = 0;
  emulator::TaskPtr last;
  emulator::CapturePtr capture;
  std::set<size_t> tail;  // capture steps that the next step depends on

  // Of the last work, if it is a kernel: the work that precedes it, and that no kernel behind it need wait for.
  bool last_is_kernel = false;
  emulator::TaskPtr before_kernel;
  std::set<size_t> tail_before_kernel;
};

struct CUevent_st {
  bool timed;
  emulator::TaskPtr task;
  emulator::CapturePtr capture;  // set if the last record was in a capture
  std::set<size_t> tail;
};

struct CUgraph_st {
  emulator::Recording steps;
};

struct CUgraphExec_st {
  std::shared_ptr<const emulator::Recording> steps;
  emulator::TaskPtr last;  // end of the last launch; launches of a graph run one after another
};
