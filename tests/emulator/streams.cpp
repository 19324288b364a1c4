#include "streams.h"

#include "emulator/emulator.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace emulator {
namespace {

std::atomic<bool> computing = true;
std::atomic<int64_t> kernels, early_kernels, library_calls, copies;

// In the order of their creation: an order of addresses would differ from run to run.
std::vector<CUstream_st*>& live_streams() {
  static auto& streams = *new std::vector<CUstream_st*>;
  return streams;
}

// A stream keeps its urgency for several tasks, so it can run far ahead of other streams or far behind them.
uint64_t urgency(CUstream_st* stream) {
  if (!stream) return draw();
  if (draw() % 8 == 0) stream->urgency = draw();
  return stream->urgency;
}

std::vector<TaskPtr> tails(const DomainPtr& domain, bool all) {
  std::vector<TaskPtr> tasks{domain->legacy};
  for (const CUstream_st* stream : live_streams())
    if (stream->domain == domain && (all || stream->blocking)) tasks.push_back(stream->last);
  return tasks;
}

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  if (!stream || (flags & ~cudaStreamNonBlocking) != 0) return report(cudaErrorInvalidValue);
  const auto lock = Scheduler::lock();
  *stream = new CUstream_st{this_domain(), flags == cudaStreamDefault, priority, draw(), {}, {}, {}, false, {}, {}};
  live_streams().push_back(*stream);
  return cudaSuccess;
}

}  // namespace

DomainPtr this_domain() {
  thread_local const DomainPtr domain = std::make_shared<Domain>();
  return domain;
}

bool is_live(CUstream_st* stream) { return !stream || std::ranges::count(live_streams(), stream) == 1; }

TaskPtr last_of_domain(const DomainPtr& domain) {
  auto task = std::make_shared<Task>(domain, Work{}, draw());
  Scheduler::add(task, tails(domain, true));
  return task;
}

cudaError_t submit(cudaStream_t stream, Work work, TaskPtr* result, std::vector<TaskPtr> after) {
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (stream) stream->last_is_kernel = false;
  if (stream && stream->capture) {
    Capture& capture = *stream->capture;
    if (capture.invalid) return report(cudaErrorStreamCaptureInvalidated);
    if (result || !after.empty()) return report(invalidate(stream->capture, cudaErrorStreamCaptureUnsupported));
    capture.steps.push_back({std::move(work), stream->tail, stream});
    stream->tail = {capture.steps.size() - 1};
    return cudaSuccess;
  }
  const DomainPtr domain = stream ? stream->domain : this_domain();
  const auto task = std::make_shared<Task>(domain, std::move(work), urgency(stream));
  if (!stream) {
    for (const CUstream_st* other : live_streams())
      if (other->domain == domain && other->blocking && other->capture)
        return report(invalidate(other->capture, cudaErrorStreamCaptureImplicit));
    for (TaskPtr& tail : tails(domain, false)) after.push_back(std::move(tail));
    domain->legacy = task;
  } else {
    after.push_back(stream->last);
    if (stream->blocking) after.push_back(domain->legacy);
    stream->last = task;
  }
  Scheduler::add(task, after);
  if (result) *result = task;
  return cudaSuccess;
}

cudaError_t submit_kernel(cudaStream_t stream, std::function<void()> run, std::function<void()> early) {
  if (!stream || !is_live(stream)) {
    if (!early) return submit(stream, {std::move(run), {}});
    return submit(stream, {[early = std::move(early), run = std::move(run)] {
                             early();
                             run();
                           },
                           {}});
  }
  // What the kernel waits for before it begins.
  TaskPtr before = stream->last;
  std::set<size_t> tail = stream->tail;
  std::vector<TaskPtr> after;
  if (early) {
    if (stream->last_is_kernel) {
      before = stream->before_kernel;
      tail = stream->tail_before_kernel;
    }
    if (stream->capture) {
      std::vector<Recorded>& steps = stream->capture->steps;
      steps.push_back({{std::move(early), {}}, std::move(tail), stream});
      tail = {steps.size() - 1};
      stream->tail.insert(steps.size() - 1);
    } else {
      after.push_back(std::make_shared<Task>(stream->domain, Work{std::move(early), {}}, urgency(stream)));
      Scheduler::add(after[0], {before, stream->blocking ? stream->domain->legacy : nullptr});
      before = after[0];
    }
  }
  if (const cudaError_t error = submit(stream, {std::move(run), {}}, nullptr, std::move(after))) return error;
  stream->last_is_kernel = true;
  stream->before_kernel = before;
  stream->tail_before_kernel = tail;
  return cudaSuccess;
}

bool computes() { return computing; }
void count_kernel(bool programmatic) {
  ++kernels;
  early_kernels += programmatic;
}
void count_copy() { ++copies; }
Issued issued() { return {kernels, early_kernels, library_calls, copies}; }
void compute(bool on) { computing = on; }

void call_library(cudaStream_t stream, std::function<void()> work) {
  ++library_calls;
  if (!computes()) work = {};
  const auto lock = Scheduler::lock();
  (void)submit_kernel(stream, std::move(work));  // a library's kernels may let the next one begin early, too
}

void enqueue(cudaStream_t stream, std::function<void()> work, std::function<bool()> ready) {
  const auto lock = Scheduler::lock();
  (void)submit(stream, {std::move(work), std::move(ready)});
}

}  // namespace emulator

using namespace emulator;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, cudaStreamDefault, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return create(stream, flags, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const auto lock = Scheduler::lock();
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  *priority = stream ? stream->priority : 0;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = Scheduler::lock();
  if (!stream || !is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (stream->capture) {
    invalidate(stream->capture, cudaSuccess);
    stream->capture->streams.erase(stream);
  }
  std::erase(live_streams(), stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  auto lock = Scheduler::lock();
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_in_capture()) return report(error);
  TaskPtr task;
  if (const cudaError_t error = submit(stream, {}, &task)) return error;
  Scheduler::finish(lock, task);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  auto lock = Scheduler::lock();
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_in_capture()) return report(error);
  if (stream && stream->capture) return report(invalidate(stream->capture, cudaErrorStreamCaptureUnsupported));
  const DomainPtr domain = stream ? stream->domain : this_domain();
  const TaskPtr last = stream ? stream->last : domain->legacy;
  Scheduler::nudge(lock, domain.get());
  return !last || last->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  auto lock = Scheduler::lock();
  if (const cudaError_t error = refuse_in_capture()) return report(error);
  Scheduler::finish(lock, last_of_domain(this_domain()));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
