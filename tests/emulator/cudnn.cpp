#include "core/bf16.h"
#include "core/error.h"
#include "device/cpu/device.h"
#include "ops/cuda/cudnn_plan.h"
#include "tests/emulator/attention.h"
#include "tests/ops/reference/plans.h"

#include <emulator/emulator.h>

#include <cstring>
#include <utility>
#include <vector>

namespace ddp::cudnn {
namespace {

std::vector<float> loaded(const void* from, DType type, int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] =
        type == DType::f32 ? static_cast<const float*>(from)[i] : float_of_bf16(static_cast<const uint16_t*>(from)[i]);
  return values;
}

void store(const std::vector<float>& values, void* to, DType type) {
  for (size_t i = 0; i < values.size(); ++i)
    if (type == DType::f32)
      static_cast<float*>(to)[i] = values[i];
    else
      static_cast<uint16_t*>(to)[i] = bf16_of_float(values[i]);
}

struct ConvGraph {
  Conv2dDesc desc;
  int64_t n;
  DType type;
  Pass pass;
  bool add;
};

void compute(const ConvGraph& graph, std::span<void* const> at) {
  Conv2dDesc desc = graph.desc;
  const bool forward = graph.pass == Pass::forward;
  if (!forward) desc.bias = desc.relu = false;
  const ImageShape out = conv2d_output(desc);
  const int64_t weights = out.c * desc.window.kernel * desc.window.kernel * desc.input.c / desc.groups;
  const auto device = make_cpu_device();
  const auto conv = reference::make_conv2d(*device, desc);
  std::vector<float> x = loaded(at[0], graph.type, graph.n * desc.input.elements()),
                     w = loaded(at[1], graph.type, weights), y = loaded(at[2], graph.type, graph.n * out.elements()),
                     bias = forward && desc.bias ? loaded(at[3], graph.type, out.c) : std::vector<float>();
  const Tensor images{x.data(), {graph.n, desc.input}, {}, DType::f32},
      outputs{y.data(), {graph.n, out}, {}, DType::f32};
  conv->bind({w.data()}, {bias.data()});
  switch (graph.pass) {
    case Pass::forward: conv->forward(images, outputs); return store(y, at[2], graph.type);
    case Pass::weight_gradient:
      conv->backward_weight(images, {}, outputs, w.data(), nullptr, graph.add ? Gradient::add : Gradient::overwrite);
      return store(w, at[1], graph.type);
    case Pass::input_gradient: conv->backward_input(outputs, images); return store(x, at[0], graph.type);
  }
}

std::vector<int64_t> conv_engines{0}, attention_engines;

}  // namespace

void offer_engines(std::vector<int64_t> offered) { conv_engines = std::move(offered); }
void offer_attention_engines(std::vector<int64_t> offered) { attention_engines = std::move(offered); }

Graph conv_graph(const Target&, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add) {
  return {[graph = ConvGraph{desc, n, type, pass, add}](std::span<void* const> at) { compute(graph, at); },
          &conv_engines};
}

Graph graph_of(const Target&, const AttentionGraph& attention) {
  return {[attention](std::span<void* const> at) { emulated::compute(attention, at); }, &attention_engines};
}

std::optional<Plan> make_plan(const Target& target, const Graph& graph, const Rules& rules, const Choice& choice) {
  if (!choice.none()) return Plan(graph, choice);
  std::vector<Plan> found = find_plans(target, graph, rules, 1);
  if (found.empty()) return std::nullopt;
  return found.front();
}

std::vector<Plan> find_plans(const Target&, const Graph& graph, const Rules&, size_t max_count) {
  std::vector<Plan> plans;
  for (const int64_t engine : *graph.engines)
    if (plans.size() < max_count) plans.emplace_back(graph, Choice{engine});
  return plans;
}

void Plan::run(cudnnHandle_t handle, std::span<void* const> pointers, void* workspace) const {
  require(choice_.engine >= 0, Exit::device, "engine {} fails", choice_.engine);
  for (const void* const pointer : pointers) {
    DDP_EXPECT(pointer && reinterpret_cast<uintptr_t>(pointer) % 16 == 0);
    DDP_EXPECT(pointer < workspace || pointer >= static_cast<std::byte*>(workspace) + this->workspace());
  }
  emulator::call_library(handle->stream, [=, graph = graph_, bytes = this->workspace(),
                                          at = std::vector<void*>(pointers.begin(), pointers.end())] {
    std::memset(workspace, 0xff, bytes);
    graph.compute(at);
    std::memset(workspace, 0xff, bytes);
  });
}

}  // namespace ddp::cudnn

void cudnnCreate(cudnnHandle_t* handle) { *handle = new cudnnContext{}; }
void cudnnDestroy(cudnnHandle_t handle) { delete handle; }
void cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) { handle->stream = stream; }
size_t cudnnGetVersion() { return 91900; }
