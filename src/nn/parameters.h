// The parameters of a network, in the order of the flat buffers: the reverse of the forward pass, so that the gradients
// backprop finishes first lie first. Tensors are dense, O,H,W,I, and start at multiples of 64 bytes, as tensor cores
// want them; the gaps stay zero. Names and shapes on disk are PyTorch's.
#pragma once

#include "nn/network.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct Parameter {
  std::string name;  // PyTorch's, such as "3.weight"
  int layer = 0;     // index in the network
  bool bias = false;
  int64_t out = 0;
  ImageShape in;  // weights: the kernel's h, w and input channels, or the image that a linear layer's columns stand for
  int64_t offset = 0, count = 0;  // elements of the flat buffer

  int64_t fan_in = 0;                  // inputs of one output, for biases too
  std::vector<int64_t> pytorch_shape;  // {O,I,H,W}, {O,I} or {O}

  // Where the element at `dense` (0..count-1, O,H,W,I) lies in PyTorch's tensor (O,I,H,W).
  int64_t pytorch_index(int64_t dense) const;
};

// Position in the result is the parameter's id.
std::vector<Parameter> parameters_of(const Network& network);

int64_t total_count(std::span<const Parameter> parameters);  // of the parameters
int64_t flat_count(std::span<const Parameter> parameters);   // of the flat buffer that they take, gaps included

// `flat` in our order, and one tensor in PyTorch's.
std::vector<float> to_pytorch(const Parameter& parameter, std::span<const float> flat);
void from_pytorch(const Parameter& parameter, std::span<const float> tensor, std::span<float> flat);

}  // namespace ddp
