// Streams, events and captures behind CUDA's handles. All of it is guarded by the scheduler's mutex.
#pragma once

#include "emulator/api.h"
#include "emulator/language.h"
#include "scheduler.h"

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace emulator {

// One step of a capture, and of the graph it becomes.
struct Recorded {
  Work work;
  std::set<size_t> after;  // indices of earlier steps
  CUstream_st* lane;       // tells branches apart; never followed
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

// Adds work to the stream, or to the capture it is in; callers hold the scheduler's lock, as for all that follows. A
// stream that captures can neither give a task nor come after one.
cudaError_t submit(cudaStream_t stream, Work work, TaskPtr* task = nullptr, std::vector<TaskPtr> after = {});
// The task after everything issued by this domain so far.
TaskPtr last_of_domain(const DomainPtr& domain);

// For calls that may not be made while this thread captures: an error, and the capture is lost.
cudaError_t refuse_in_capture();
cudaError_t invalidate(const CapturePtr& capture, cudaError_t error);

bool is_live(CUstream_st* stream);  // the default stream is
bool is_live(CUevent_st* event);

// Remembers the error for cudaGetLastError, and returns it.
cudaError_t report(cudaError_t error);

}  // namespace emulator

struct CUstream_st {
  emulator::DomainPtr domain;
  bool blocking;  // ordered with the default stream
  int priority;
  uint64_t urgency = 0;
  emulator::TaskPtr last;
  emulator::CapturePtr capture;
  std::set<size_t> tail;  // what the next step of the capture comes after
};

struct CUevent_st {
  bool timed;
  emulator::TaskPtr task;
  emulator::CapturePtr capture;  // set if it was last recorded in a capture
  std::set<size_t> tail;
};

struct CUgraph_st {
  emulator::Recording steps;
};

struct CUgraphExec_st {
  std::shared_ptr<const emulator::Recording> steps;
  emulator::TaskPtr last;  // launches of one graph follow each other
};
