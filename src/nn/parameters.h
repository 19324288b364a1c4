// The parameters of a network, in the order of the flat buffers: the reverse of the forward pass, so that the gradients
// backprop finishes first lie first. Tensors are dense, O,H,W,I, and start at multiples of 64 bytes, as tensor cores
// want them; the gaps stay zero. Names and shapes on disk are PyTorch's.
#pragma once

#include "nn/network.h"
#include "ops/batch_norm.h"
#include "ops/optimizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct Parameter {
  enum class Role { weight, bias, norm_scale, norm_shift };

  std::string name;  // PyTorch's, such as "3.weight"
  int layer = 0;     // index in the network
  Role role = Role::weight;
  int64_t out = 0;
  ImageShape in;  // weights: the kernel's h, w and input channels, or the image that a linear layer's columns stand for
  int64_t offset = 0, count = 0;  // elements of the flat buffer

  int64_t fan_in = 0, fan_out = 0;     // of the layer, for biases too
  std::vector<int64_t> pytorch_shape;  // {O,I,H,W}, {O,I} or {O}

  // Where the element at `dense` (0..count-1, O,H,W,I) lies in PyTorch's tensor (O,I,H,W).
  int64_t pytorch_index(int64_t dense) const;
};

// Position in the result is the parameter's id. Offsets are multiples of 16 elements and of `multiple`.
std::vector<Parameter> parameters_of(const Network& network, int64_t multiple = 1);

int64_t total_count(std::span<const Parameter> parameters);  // of the parameters
// Of the flat buffer that they take, gaps included.
int64_t flat_count(std::span<const Parameter> parameters, int64_t multiple = 1);

// What the optimizer has to know; with `all_decay`, biases and the parameters of norms decay as well.
std::vector<OptimizerTensor> optimizer_tensors(std::span<const Parameter> parameters, bool all_decay);

// `flat` in our order, and one tensor in PyTorch's.
std::vector<float> to_pytorch(const Parameter& parameter, std::span<const float> flat);
void from_pytorch(const Parameter& parameter, std::span<const float> tensor, std::span<float> flat);

// The running statistics of a batch norm, which are state, not parameters: they are no gradient's.
struct BatchNormState {
  std::string layer_name;  // PyTorch's: with ".running_mean", ".running_var" and ".num_batches_tracked" behind it
  int layer = 0;           // index in the network
  RunningStatsSpan span;   // of the state's buffer, in floats
  bool scale = true;       // without one PyTorch's tensor "weight" is all 1
};

std::vector<BatchNormState> batch_norm_states_of(const Network& network);  // in the order of the forward pass
int64_t state_count(std::span<const BatchNormState> batch_norms);          // floats

// As they are before training: means 0, variances 1.
std::vector<float> initial_state(std::span<const BatchNormState> batch_norms);

}  // namespace ddp
