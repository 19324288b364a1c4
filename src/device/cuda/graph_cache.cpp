#include "device/cuda/graph_cache.h"

#include <map>
#include <utility>

namespace ddp {
namespace {

class CudaGraphCache final : public GraphCache {
 public:
  CudaGraphCache(cudaStream_t stream, bool graphs, std::function<void()> join)
      : stream_(stream), graphs_(graphs), join_(std::move(join)) {}
  ~CudaGraphCache() override { cudaStreamSynchronize(stream_); }  // a graph may still run

  void run(GraphKey key, const std::function<void()>& work) override {
    Entry& entry = entries_[key];
    if (!graphs_ || !std::exchange(entry.warm, true)) {
      work();
      join_();
      return;
    }
    if (!entry.graph)
      entry.graph = capture_graph(stream_, [&] {
        work();
        join_();
      });
    DDP_CUDA(cudaGraphLaunch(entry.graph.get(), stream_));
  }

 private:
  struct Entry {
    bool warm = false;
    CudaGraphExec graph;
  };

  cudaStream_t stream_;
  bool graphs_;
  std::function<void()> join_;
  std::map<GraphKey, Entry> entries_;
};

}  // namespace

// Thread-local mode: CUDA calls of the watchdog's thread do not break the capture.
CudaGraphExec capture_graph(cudaStream_t stream, const std::function<void()>& issue) {
  cudaGraph_t captured = nullptr;
  DDP_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    issue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    cudaGetLastError();  // the error is known
    const CudaGraph dropped(captured);
    throw;
  }
  DDP_CUDA(cudaStreamEndCapture(stream, &captured));
  const CudaGraph graph(captured);
  cudaGraphExec_t executable = nullptr;
  DDP_CUDA(cudaGraphInstantiate(&executable, captured, cudaGraphInstantiateFlagUseNodePriority));
  return CudaGraphExec(executable);
}

std::unique_ptr<GraphCache> make_cuda_graph_cache(cudaStream_t stream, bool graphs, std::function<void()> join) {
  return std::make_unique<CudaGraphCache>(stream, graphs, std::move(join));
}

}  // namespace ddp
