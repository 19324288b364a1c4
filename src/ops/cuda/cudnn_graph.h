// The operations of a convolution as cuDNN's graphs, for one batch size.
#pragma once

#include "core/dtype.h"
#include "ops/conv2d.h"
#include "ops/cuda/cudnn_descriptor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp::cudnn {

// For which GPU plans are made: that of a handle, or one described in JSON, for which plans can be made, but not run,
// where there is none.
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

// A gradient has the operand of what it is the gradient of.
enum class Operand : int64_t { x = 1, w, y, bias };

// What a plan is for. Its operands are all of one type: cuDNN's precompiled engines have weights, bias and weight
// gradient in the type of x and y.
struct Graph {
  Descriptor descriptor;
  std::vector<Operand> operands;
};

// Forward: with desc.bias and desc.relu these are part of it. `add`, for the weight gradient: it grows by the result.
// Sums are f32. All operands are dense and start at multiples of kAlignment bytes; with less there are half as many
// plans.
inline constexpr int64_t kAlignment = 16;
Graph conv_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass, bool add = false);

}  // namespace ddp::cudnn
