#include "emulator/emulator.h"
#include "streams.h"

#include <map>

namespace emulator {
namespace {

std::vector<CapturePtr>& captures() {
  static auto& captures = *new std::vector<CapturePtr>;
  return captures;
}

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

// True if every step of the capture precedes the origin stream's last step. If not, a forked stream was not joined.
bool all_joined(const Capture& capture) {
  std::set<size_t> seen, open = capture.origin->tail;
  while (!open.empty()) {
    const size_t step = open.extract(open.begin()).value();
    if (!seen.insert(step).second) continue;
    open.insert(capture.steps[step].after.begin(), capture.steps[step].after.end());
  }
  return seen.size() == capture.steps.size();
}

void end(Capture& capture) {
  for (CUstream_st* stream : capture.streams) {
    stream->capture = nullptr;
    stream->tail.clear();
    stream->last_is_kernel = false;
  }
  capture.origin = nullptr;  // events may still refer to the capture
  std::erase_if(captures(), [&](const CapturePtr& other) { return other.get() == &capture; });
}

}  // namespace

cudaError_t invalidate(const CapturePtr& capture, cudaError_t error) {
  if (capture) capture->invalid = true;
  return error;
}

cudaError_t refuse_in_capture() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const CapturePtr& capture : captures())
    if ((capture->mode != cudaStreamCaptureModeRelaxed && capture->thread == std::this_thread::get_id()) ||
        (capture->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal))
      error = invalidate(capture, cudaErrorStreamCaptureUnsupported);
  return error;
}

}  // namespace emulator

using namespace emulator;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const auto lock = Scheduler::lock();
  if (!stream) return report(cudaErrorStreamCaptureUnsupported);
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  if (stream->capture) return report(cudaErrorIllegalState);
  stream->last_is_kernel = false;
  stream->capture = std::make_shared<Capture>(Capture{stream, std::this_thread::get_id(), mode, false, {}, {stream}});
  captures().push_back(stream->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto lock = Scheduler::lock();
  *graph = nullptr;
  if (!stream || !is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  const CapturePtr capture = stream->capture;
  if (!capture) return report(cudaErrorIllegalState);
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return report(invalidate(capture, cudaErrorStreamCaptureWrongThread));
  if (capture->origin != stream) return report(invalidate(capture, cudaErrorStreamCaptureUnmatched));
  const bool joined = all_joined(*capture);
  end(*capture);
  if (capture->invalid) return report(cudaErrorStreamCaptureInvalidated);
  if (!joined) return report(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->steps)};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const auto lock = Scheduler::lock();
  if (!is_live(stream)) return report(cudaErrorInvalidResourceHandle);
  *status = cudaStreamCaptureStatusNone;
  if (stream && stream->capture)
    *status = stream->capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (!exec || !graph) return report(cudaErrorInvalidValue);
  *exec = new CUgraphExec_st{std::make_shared<const Recording>(graph->steps), {}};
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t) {
  return exec ? cudaSuccess : report(cudaErrorInvalidValue);
}

// The launch adds a first task, a task for each step, and a last task to the stream. The scheduler orders branches as
// it orders streams.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (!exec) return report(cudaErrorInvalidValue);
  const auto lock = Scheduler::lock();
  TaskPtr first;
  if (const cudaError_t error = submit(stream, {}, &first, {exec->last})) return error;
  std::vector<TaskPtr> tasks;
  std::map<CUstream_st*, uint64_t> urgency;
  for (const Recorded& step : *exec->steps) {
    const uint64_t lane = urgency.try_emplace(step.lane, draw()).first->second;
    tasks.push_back(std::make_shared<Task>(first->domain, step.work, lane));
    std::vector<TaskPtr> after{first};
    for (const size_t earlier : step.after) after.push_back(tasks[earlier]);
    Scheduler::add(tasks.back(), after);
  }
  return submit(stream, {}, &exec->last, tasks);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (!graph) return report(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

// Pending launches of the graph continue.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (!exec) return report(cudaErrorInvalidValue);
  const auto lock = Scheduler::lock();
  delete exec;
  return cudaSuccess;
}
