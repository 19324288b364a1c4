// A model's weights and running statistics as a file with PyTorch's state_dict names and layouts.
#pragma once

#include "nn/parameters.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace ddp {

struct ModelState {
  std::vector<float> weights;     // in the order of the parameters
  std::vector<float> statistics;  // in the order of the norms
  int64_t updates = 0;            // of the statistics: PyTorch's num_batches_tracked
};

// Tensors are written in the forward order, as PyTorch does. Throws Error(Exit::output).
void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const BatchNormState> batch_norms, const ModelState& state);

// Throws Error(Exit::data) where the file is broken, Error(Exit::model) where names or shapes are not the model's.
ModelState load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                           std::span<const BatchNormState> batch_norms);

}  // namespace ddp
