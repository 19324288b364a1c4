#include "device/cuda/recorder.h"

#include <map>
#include <utility>

namespace ddp {
namespace {

class GraphRecorder final : public Recorder {
 public:
  GraphRecorder(cudaStream_t stream, bool graphs, std::function<void()> join)
      : stream_(stream), graphs_(graphs), join_(std::move(join)) {}
  ~GraphRecorder() override { cudaStreamSynchronize(stream_); }  // a graph may still run

  void run(WorkKey key, const std::function<void()>& work) override {
    Recording& recording = recordings_[key];
    if (!graphs_ || !std::exchange(recording.warm, true)) {
      work();
      join_();
      return;
    }
    if (!recording.graph) recording.graph = capture(work);
    DDP_CUDA(cudaGraphLaunch(recording.graph.get(), stream_));
  }

 private:
  struct Recording {
    bool warm = false;
    CudaGraphExec graph;
  };

  // In thread-local mode, so that a watchdog's calls do not disturb it.
  CudaGraphExec capture(const std::function<void()>& work) const {
    cudaGraph_t captured = nullptr;
    DDP_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    try {
      work();
      join_();
    } catch (...) {
      cudaStreamEndCapture(stream_, &captured);
      const CudaGraph dropped(captured);
      throw;
    }
    DDP_CUDA(cudaStreamEndCapture(stream_, &captured));
    const CudaGraph graph(captured);
    cudaGraphExec_t executable = nullptr;
    DDP_CUDA(cudaGraphInstantiate(&executable, captured, cudaGraphInstantiateFlagUseNodePriority));
    return CudaGraphExec(executable);
  }

  cudaStream_t stream_;
  bool graphs_;
  std::function<void()> join_;
  std::map<WorkKey, Recording> recordings_;
};

}  // namespace

std::unique_ptr<Recorder> make_graph_recorder(cudaStream_t stream, bool graphs, std::function<void()> join) {
  return std::make_unique<GraphRecorder>(stream, graphs, std::move(join));
}

}  // namespace ddp
