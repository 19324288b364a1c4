// The passes of a convolution and of attention as cuDNN operation graphs, for one batch size.
#pragma once

#include "core/dtype.h"
#include "ops/conv2d.h"
#include "ops/cuda/attention_graph.h"
#include "ops/cuda/cudnn_descriptor.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::cudnn {

// The GPU that plans are made for: the GPU of a handle, or a GPU described in JSON. For the latter, plans can be made
// on a machine without a GPU, but not run.
class Target {
 public:
  explicit Target(cudnnHandle_t handle) : handle_(handle) {}
  explicit Target(const std::string& json);

  cudnnHandle_t handle() const { return handle_; }
  const std::optional<Descriptor>& description() const { return description_; }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::optional<Descriptor> description_;
};

enum class Pass { forward, weight_gradient, input_gradient };

// A gradient uses the operand of its value: dy is Operand::y.
enum class Operand : int64_t { x = 1, w, y, bias };

// A value that each run passes to the kernel.
struct Constant {
  int64_t id = 0;
  float value = 0;
};

struct Graph {
  Descriptor descriptor;
  std::vector<Operand> operands;
  std::vector<Constant> constants = {};
};

// All operands of a convolution have one type, because cuDNN's precompiled engines need weights, bias and weight
// gradient in the type of x and y. The forward graph includes the bias if desc.bias, and the ReLU if desc.relu. With
// `add`, the weight gradient is added to its operand. Sums are f32. All operands are dense and start at multiples of
// kAlignment bytes; a smaller alignment would leave half as many plans.
inline constexpr int64_t kAlignment = 16;
Graph conv_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add = false);

// The parts of which such graphs consist. A tensor has channels innermost; a virtual one is an intermediate value,
// without memory. `b` of a pointwise operation may be null. Unlike the enum Operand, ids from 100 on are free.
using Dims = std::array<int64_t, 4>;  // n, c, h, w
struct ConvDims {
  Dims x, w, y;
};
struct ConvTensors {
  Descriptor x, w, y;
};
ConvDims dims_of(const Conv2dDesc& desc, int64_t n);
Descriptor tensor(int64_t id, const Dims& dims, DType type, bool is_virtual = false);
Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);
Descriptor convolution(Pass pass, const Window2d& window, const ConvTensors& tensors, bool add = false);
Graph graph_of(const Target& target, std::span<const Descriptor> operations, std::vector<Operand> operands);

// cudnn_attention.cpp
Graph graph_of(const Target& target, const AttentionGraph& attention);

}  // namespace ddp::cudnn
