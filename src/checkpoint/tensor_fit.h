// Compares the tensors of a file with those that a model needs.
#pragma once

#include "checkpoint/safetensors.h"
#include "nn/parameters.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct NeededTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool optional = false;  // a file without it fits
};

// The tensors of a state dict, with PyTorch's names and shapes. Only num_batches_tracked is optional.
std::vector<NeededTensor> state_dict_of(std::span<const Parameter> parameters,
                                        std::span<const BatchNormState> batch_norms);

// A tensor that others write beside the parameters, though it tells nothing new. A file fits with it and without it.
struct DerivedTensor {
  enum class Kind {
    copy,         // of the tensor `of`, bit for bit: the weight of a tied linear layer
    causal_mask,  // 1 x 1 x N x N, ones on and below the diagonal, else zeros
    mask_value    // a single number, -10,000 to rounding
  };
  std::string name;
  Kind kind;
  std::string of = {};
};

// Those of tied linear layers; and of causal attention, whose masks GPT-2's module has as "bias" and "masked_bias".
std::vector<DerivedTensor> derived_tensors(const Network& network);

struct TensorFit {
  // A few of the tensors of one kind, as text, and the number of all.
  struct Some {
    std::vector<std::string> texts = {};
    int64_t count = 0;
  };

  std::string prefix = {};   // of the names of all tensors in the file, which the model's names do not have: "module."
  std::string lacking = {};  // the prefix of all names of the model's tensors that those of the file do not have
  int64_t fitting = 0, needed = 0;  // tensors, optional ones that are missing left out
  Some other_shape = {}, missing = {}, unknown = {}, other_values = {};  // other_values: of derived tensors

  bool fits() const { return other_shape.count + missing.count + unknown.count + other_values.count == 0; }
  // The name in the file of a tensor of the model.
  std::string in_file(const std::string& name) const {
    return prefix + (name.starts_with(lacking) ? name.substr(lacking.size()) : name);
  }
  // Such as "6 of its 8 tensors fit; another shape: 7.weight (file [128, 800], model [128, 1250]); only in the file:
  // x".
  std::string text() const;
};

// Removes the shared prefix that lets the most names fit, such as "module._orig_mod."; of equal ones the shortest. Adds
// a prefix of all needed names in the same way.
TensorFit fit_of(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed,
                 std::span<const DerivedTensor> derived = {});

// A network by its name in --model.
struct NamedNetwork {
  std::string name;
  ImageShape image;
  int64_t classes = 0;
};

// Which of the program's networks, for these images and classes, fits the file better than `network` does, such as
// "; lenet fits better: 8 of its 8 tensors, so use --model lenet"; empty if none does.
std::string better_network(const std::map<std::string, NamedTensor>& file, const TensorFit& fit,
                           const NamedNetwork& network);

}  // namespace ddp
