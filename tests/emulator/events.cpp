#include "emulator/emulator.h"
#include "streams.h"

namespace emulator {
namespace {

std::set<CUevent_st*>& live_events() {
  static auto& events = *new std::set<CUevent_st*>;
  return events;
}

// A stream that waits for a captured event joins the capture.
cudaError_t wait_in_capture(cudaStream_t stream, CUevent_st& event) {
  const CapturePtr capture = stream ? stream->capture : nullptr;
  if (capture && capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!event.capture) {
    if (!event.task) return cudaSuccess;  // never recorded
    return invalidate(capture, cudaErrorStreamCaptureIsolation);
  }
  if (event.capture->origin == nullptr) return invalidate(capture, cudaErrorCapturedEvent);  // the capture has ended
  if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!stream) return invalidate(event.capture, cudaErrorStreamCaptureImplicit);
  if (capture && capture != event.capture) {
    invalidate(capture, cudaErrorStreamCaptureMerge);
    return invalidate(event.capture, cudaErrorStreamCaptureMerge);
  }
  stream->capture = event.capture;
  event.capture->streams.insert(stream);
  stream->tail.insert(event.tail.begin(), event.tail.end());
  stream->last_is_kernel = false;
  return cudaSuccess;
}

cudaError_t check_waitable(cudaEvent_t event) {
  if (!event || !is_live(event)) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t error = refuse_in_capture()) return error;
  if (!event->capture) return cudaSuccess;
  return event->capture->origin ? invalidate(event->capture, cudaErrorStreamCaptureUnsupported)
                                : cudaErrorCapturedEvent;
}

}  // namespace

bool is_live(CUevent_st* event) { return live_events().count(event) == 1; }

}  // namespace emulator

using namespace emulator;

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (!event || (flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) return report(cudaErrorInvalidValue);
  const auto lock = Scheduler::lock();
  *event = new CUevent_st{(flags & cudaEventDisableTiming) == 0, {}, {}, {}};
  live_events().insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto lock = Scheduler::lock();
  if (!event || !is_live(event)) return report(cudaErrorInvalidResourceHandle);
  live_events().erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto lock = Scheduler::lock();
  if (!event || !is_live(event) || !is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (stream && stream->capture) {
    if (stream->capture->invalid) return report(cudaErrorStreamCaptureInvalidated);
    event->capture = stream->capture;
    event->tail = stream->tail;
    event->task = nullptr;
    return cudaSuccess;
  }
  TaskPtr task;
  if (const cudaError_t error = submit(stream, {}, &task)) return error;
  event->task = task;
  event->capture = nullptr;
  event->tail.clear();
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  auto lock = Scheduler::lock();
  if (flags != cudaEventWaitDefault) return report(cudaErrorInvalidValue);
  if (!event || !is_live(event) || !is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if ((stream && stream->capture) || event->capture) {
    const cudaError_t error = wait_in_capture(stream, *event);
    return error ? report(error) : cudaSuccess;
  }
  if (!event->task || event->task->done) return cudaSuccess;
  return submit(stream, {}, nullptr, {event->task});
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto lock = Scheduler::lock();
  if (const cudaError_t error = check_waitable(event)) return report(error);
  Scheduler::finish(lock, TaskPtr(event->task));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto lock = Scheduler::lock();
  if (const cudaError_t error = check_waitable(event)) return report(error);
  const TaskPtr task = event->task;
  if (!task || task->done) return cudaSuccess;
  Scheduler::nudge(lock, task->domain.get());
  return task->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto lock = Scheduler::lock();
  for (const cudaEvent_t event : {start, end}) {
    if (const cudaError_t error = check_waitable(event)) return report(error);
    if (!event->timed || !event->task) return report(cudaErrorInvalidResourceHandle);
    if (!event->task->done) return cudaErrorNotReady;
  }
  *milliseconds = 0;
  return cudaSuccess;
}
