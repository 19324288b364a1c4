// The first weights of a run from the file of another one, which may have had other classes.
#pragma once

#include "checkpoint/state_dict.h"
#include "nn/init.h"
#include "nn/parameters.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// How the head, which is the last linear layer, begins new.
struct NewHead {
  Init init = {};
  uint64_t seed = 0;
};

// Makes the tensors of a file, by name, those of a network with a new head: the file's own head gives way to new
// weights, of whatever shape it is and also under another name; a first convolution of three input channels is summed
// over them for a network that reads one. `fit`: has the names in the file. Returns a line for each change, which names
// the tensors that are left out and those that begin new.
std::vector<std::string> renew_head(std::map<std::string, NamedTensor>& tensors, const TensorFit& fit,
                                    std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
                                    const NewHead& head);

// As load_state_dict(). With `new_head`, everything but the head must fit, after renew_head(). Throws also
// Error(Exit::numerics) that names a tensor with NaN or infinity; Error(Exit::model) says where a new head would do.
ModelState load_initial_state(const std::filesystem::path& path, std::span<const Parameter> parameters,
                              std::span<const BatchNormState> batch_norms, const std::optional<NewHead>& new_head,
                              const LoadNotes& notes = {});

}  // namespace ddp
