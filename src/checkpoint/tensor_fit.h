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

struct TensorFit {
  // A few of the tensors of one kind, as text, and the number of all.
  struct Some {
    std::vector<std::string> texts = {};
    int64_t count = 0;
  };

  std::string
      prefix;  // of the names of all tensors in the file, which the model's names do not have; such as "module."
  int64_t fitting = 0, needed = 0;  // tensors, optional ones that are missing left out
  Some other_shape, missing, unknown;

  bool fits() const { return other_shape.count + missing.count + unknown.count == 0; }
  // Such as "6 of its 8 tensors fit; another shape: 7.weight (file [128, 800], model [128, 1250]); only in the file:
  // x".
  std::string text() const;
};

// Removes the shared prefix that lets the most names fit, such as "module._orig_mod."; of equal ones the shortest.
TensorFit fit_of(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed);

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
