// Stands for src/ops/cuda/cudnn_plan.h and what it includes. Its engines enqueue the reference convolution, or the
// operations of a graph of attention, as work in the stream. tests/ops/cuda/plans_test.cpp and attention_plans_test.cpp
// test the real ones, with cuDNN.
#pragma once

#include "core/dtype.h"
#include "ops/conv2d.h"
#include "ops/cuda/attention_graph.h"
#include "ops/cuda/context.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
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

// The engines of all convolutions from now on. One below 0 fails in each run. Default: 0.
void offer_engines(std::vector<int64_t> engines);
// The same for attention. Default: none.
void offer_attention_engines(std::vector<int64_t> engines);

struct Choice {
  int64_t engine = -1;
  bool none() const { return engine < 0; }
};
using ChoiceWords = std::array<int64_t, 1>;
inline ChoiceWords to_words(const Choice& choice) { return {choice.engine}; }
inline Choice from_words(std::span<const int64_t> words) { return {words[0]}; }
inline std::vector<int64_t> to_list(const Choice& choice) { return {choice.engine}; }
inline Choice from_list(std::span<const int64_t> list) { return {list.size() % 2 == 1 ? list[0] : -1}; }

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
  std::function<void(std::span<void* const>)> compute;
  const std::vector<int64_t>* engines;
};
// Pointers: x, w, y, and for a forward pass with a bias the bias; all are of the graph's type.
Graph conv_graph(const Target&, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add = false);
Graph graph_of(const Target&, const AttentionGraph& attention);

class Plan {
 public:
  Plan(const Graph& graph, const Choice& choice) : graph_(graph), choice_(choice) {}
  Choice choice() const { return choice_; }
  int64_t workspace() const { return 512; }  // run() leaves NaNs there

  // All pointers are 16-byte aligned.
  void run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace) const;

 private:
  Graph graph_;
  Choice choice_;
};

inline constexpr size_t kAll = SIZE_MAX;
std::vector<Plan> find_plans(const Target& target, const Graph& graph, const Rules& rules, size_t max_count = kAll);
std::optional<Plan> make_plan(const Target& target, const Graph& graph, const Rules& rules, const Choice& choice);

}  // namespace ddp::cudnn
