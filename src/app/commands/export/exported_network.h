// A trained network as other programs get it: its layers, and its tensors with PyTorch's names and layouts.
#pragma once

#include "checkpoint/safetensors.h"
#include "nn/network.h"

#include <string>
#include <vector>

namespace ddp {

struct ExportedNetwork {
  Network network;
  std::vector<NamedTensor> tensors;  // as named_tensors() has them; without those of folded batch norms
  std::vector<bool> folded = std::vector<bool>(network.layers().size());  // by layer: a batch norm that is the identity

  const NamedTensor* find(const std::string& name) const;  // null: there is none
};

// Throws Error(Exit::numerics) that names the first tensor with NaN or infinity. `file`: of the weights.
void require_finite(const ExportedNetwork& exported, const std::string& file);

// Folds batch norms, with their running statistics, into the convolutions and linear layers before them:
//
//   weight' = weight * scale / sqrt(variance + epsilon)
//   bias'   = (bias - mean) * scale / sqrt(variance + epsilon) + shift
//
// in f64, each rounded to f32 once. A layer without a bias gets one. A batch norm stays where it follows another kind
// of layer, where another layer reads its input too, and where a result is no finite f32. Returns how many were folded.
int fold_batch_norms(ExportedNetwork& exported);

}  // namespace ddp
