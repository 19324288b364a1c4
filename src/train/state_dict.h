// A model's weights as a file with PyTorch's state_dict names and layouts.
#pragma once

#include "nn/parameters.h"

#include <filesystem>
#include <span>
#include <vector>

namespace ddp {

// `flat`: weights in the order of `parameters`. Tensors are written in the forward order, as PyTorch does. Throws
// Error(Exit::output).
void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const float> flat);

// Throws Error(Exit::data) where the file is broken, Error(Exit::model) where names or shapes are not the model's.
std::vector<float> load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters);

}  // namespace ddp
