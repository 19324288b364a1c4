// Groups of parameters with values of their own for the optimizer. A parameter belongs to the first group that matches
// its name.
#pragma once

#include "nn/parameters.h"
#include "ops/optimizer.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Without a value, the group has that of all other parameters.
struct ParameterGroup {
  std::string match = {};  // PyTorch's names; * stands for any text
  std::optional<double> lr = {}, weight_decay = {}, momentum = {};
  double rate = 1;  // lr over the learning rate of the other parameters: the factor of the scheduled rate
};

bool matches(std::string_view match, std::string_view name);

// The index of the group of each parameter; -1: none.
std::vector<int> groups_of(std::span<const Parameter> parameters, std::span<const ParameterGroup> groups);

// What matches the parameters of the last linear layer, such as "fc.*"; empty: there is none.
std::string head_of(std::span<const Parameter> parameters);

// Without `all_decay`, biases and the parameters of batch norms have no weight decay, also in a group, and lars does
// not adapt their rate; nor does it that of a group whose weight decay is given as 0.
std::vector<OptimizerTensor> optimizer_tensors(std::span<const Parameter> parameters, const OptimizerDesc& desc,
                                               bool all_decay, std::span<const ParameterGroup> groups = {});

}  // namespace ddp
