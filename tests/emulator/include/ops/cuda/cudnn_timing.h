// Stands for src/ops/cuda/cudnn_timing.h and what it includes: one engine, which enqueues the reference convolution as
// work in the stream. tests/ops/cuda/plans_test.cpp tests the real ones, with cuDNN.
#pragma once

#include "core/dtype.h"
#include "ops/conv2d.h"
#include "ops/cuda/context.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

struct cudnnContext {
  cudaStream_t stream;
};
using cudnnHandle_t = cudnnContext*;

void cudnnCreate(cudnnHandle_t* handle);
void cudnnDestroy(cudnnHandle_t handle);
void cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream);
size_t cudnnGetVersion();
#define DDP_CUDNN(call) (call)

namespace ddp::cudnn {

struct Choice {};
using ChoiceWords = std::array<int64_t, 1>;
inline ChoiceWords to_words(const Choice&) { return {}; }
inline Choice from_words(std::span<const int64_t>) { return {}; }

struct Rules {
  Precision precision;
  bool deterministic;
  int64_t workspace = 0;
};

struct Target {
  explicit Target(cudnnHandle_t) {}
};

enum class Pass { forward, weight_gradient, input_gradient };

struct Graph {
  Conv2dDesc desc;
  int64_t n;
  DType type;
  Pass pass;
  bool add;
};
inline Graph conv_graph(const Target&, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add = false) {
  return {desc, n, type, pass, add};
}

class Plan {
 public:
  explicit Plan(const Graph& graph) : graph_(graph) {}
  Choice choice() const { return {}; }
  int64_t workspace() const { return 512; }  // run() leaves NaNs there

  // Pointers: x, w, y, and for a forward pass with a bias the bias; all are of the graph's type and 16-byte aligned.
  void run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace) const;

 private:
  Graph graph_;
};

inline constexpr size_t kTimed = 1;
inline std::vector<Plan> find_plans(const Target&, const Graph& graph, const Rules&, size_t) { return {Plan(graph)}; }
inline std::optional<Plan> make_plan(const Target&, const Graph& graph, const Rules&, const Choice&) {
  return Plan(graph);
}
inline size_t fastest(CudaContext&, cudnnHandle_t, std::span<const Plan>, std::span<const int64_t>) { return 0; }

}  // namespace ddp::cudnn
