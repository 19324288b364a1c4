// The parameters of a network and their places in the flat buffers.
//
// The order is the reverse of the forward pass, so the gradients that backward finishes first come first. Frozen
// parameters lie behind all trained ones: gradients and optimizer state have places for the trained ones only. Tensors
// are dense, in the order O,H,W,I, and start at multiples of 64 bytes, as tensor cores need; the gaps stay 0. Names and
// shapes on disk are those of PyTorch.
#pragma once

#include "nn/init_rule.h"
#include "nn/network.h"
#include "ops/batch_norm.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct Parameter {
  enum class Role { weight, bias, norm_scale, norm_shift, layer_scale, class_token, position_embedding };

  std::string name;  // as in PyTorch, such as "3.weight"
  int layer = 0;     // index in the network
  Role role = Role::weight;
  bool trained = true;                                                     // false: frozen
  LayerSpec::BiasGradient bias_gradient = LayerSpec::BiasGradient::layer;  // of a bias
  int64_t out = 0;
  ImageShape in;  // of weights: kernel h, kernel w and input channels, or the image that a linear layer's input was
  int64_t offset = 0, count = 0;  // in elements of the flat buffer

  int64_t fan_in = 0, fan_out = 0;     // of the layer, also in its bias
  std::vector<int64_t> pytorch_shape;  // {O,I,H,W}, {O,I}, {I,O} or {O}; the roles after norm_shift have others
  bool transposed = false;             // of a weight: PyTorch's tensor is {I,O}
  bool tied = false;                   // the table of an embedding is the weight of the head too
  float initial = 0;                   // of a layer_scale
  InitRule init = {};                  // of a weight, a bias or a position_embedding

  // Index in PyTorch's tensor (O,I,H,W or I,O) of the element at index `dense` of ours (O,H,W,I), 0 <= dense < count.
  int64_t pytorch_index(int64_t dense) const;
};

// Whether LayerSpec::trains_weight is about it; else trains_bias is.
constexpr bool is_weight(Parameter::Role role) {
  return role != Parameter::Role::bias && role != Parameter::Role::norm_shift;
}

// Of a conv2d or linear layer.
Fans fans_of(const LayerSpec& spec);

// The index in the result is the id of the parameter. Offsets are multiples of 16 elements and of `multiple`.
std::vector<Parameter> parameters_of(const Network& network, int64_t multiple = 1);

// Of the head, which is the last linear layer; -1: there is none, or its weight is the table of an embedding.
int head_layer(std::span<const Parameter> parameters);

// The ids of a layer's trained parameters, ascending.
std::vector<int> ids_of_layer(std::span<const Parameter> parameters, int layer);
// Null: the layer has no such parameter.
const Parameter* find_parameter(std::span<const Parameter> parameters, int layer, Parameter::Role role);
// The trained parameters: those before the first frozen one.
std::span<const Parameter> trained_of(std::span<const Parameter> parameters);

int64_t total_count(std::span<const Parameter> parameters);  // elements, without gaps
// Elements of the flat buffer, with gaps.
int64_t flat_count(std::span<const Parameter> parameters, int64_t multiple = 1);

// Copy one parameter between the flat buffer and a tensor in PyTorch's order.
std::vector<float> to_pytorch(const Parameter& parameter, std::span<const float> flat);
void from_pytorch(const Parameter& parameter, std::span<const float> tensor, std::span<float> flat);

// The running statistics of one batch norm. They are state, not parameters: they have no gradient.
struct BatchNormState {
  std::string layer_name;  // as in PyTorch; its tensors append ".running_mean", ".running_var", ".num_batches_tracked"
  int layer = 0;           // index in the network
  RunningStatsSpan span;   // place in the buffer of running statistics
  bool scale = true;       // false: the tensor "weight" on disk is all 1
  bool trained = true;     // false: all its parameters are frozen, and so are the statistics, which it normalises by
};

// In the order of the forward pass. In the buffer, the statistics of trained batch norms lie before those of frozen
// ones.
std::vector<BatchNormState> batch_norm_states_of(const Network& network);
int64_t state_count(std::span<const BatchNormState> batch_norms);          // size of the buffer in floats
int64_t trained_state_count(std::span<const BatchNormState> batch_norms);  // of the trained batch norms

// The values before training: means 0, variances 1.
std::vector<float> initial_state(std::span<const BatchNormState> batch_norms);

}  // namespace ddp
