// A checkpoint is a folder that holds all that a run needs to go on, as whole named tensors, so that any number of
// ranks and any device can load it:
//
//   checkpoints/step-00001234/model.safetensors       weights and running statistics, as PyTorch's state_dict
//                             optimizer.safetensors   "<parameter>.<state>", in PyTorch's layouts
//                             state.json              RunState
//                             manifest.json           size and CRC-32 of each of the files above
//   checkpoints/latest, checkpoints/best              links to such folders
//
// It is written under a temporary name in the same folder, flushed to the disk and renamed: a folder with a
// checkpoint's name is whole, unless the disk has lost something since. Nothing here communicates; rank 0 calls.
#pragma once

#include "nn/parameters.h"
#include "train/run_state.h"
#include "train/state_dict.h"

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct OptimizerState {
  std::string name;           // PyTorch's, such as "momentum_buffer"
  std::vector<float> values;  // in the order of the flat buffer
};

struct Snapshot {
  ModelState model;
  std::vector<OptimizerState> optimizer;
  RunState run;
};

// What a checkpoint's tensors are the tensors of. Views.
struct Tensors {
  std::span<const Parameter> parameters;
  std::span<const BatchNormState> batch_norms;
};

// Writes `folder`/step-NNNNNNNN, replacing one of that name, and makes `latest` point to it; `best` too where asked.
// Creates `folder`. Returns its path. `about_to_write` is called with each file's path before it is written; what it
// throws is a failure to write it. Throws Error(Exit::output), and then leaves nothing temporary behind.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const Snapshot& snapshot,
                                       const Tensors& tensors, bool best,
                                       const std::function<void(const std::filesystem::path&)>& about_to_write = {});

// What is in a checkpoint whose files are all of the manifest's size and checksum. Throws Error(Exit::data) that names
// the file and what is wrong with it where one is not, is missing or is no file; Error(Exit::model) where tensors are
// not the model's. Allocates no more than the files are long.
RunState read_run_state(const std::filesystem::path& checkpoint);
Snapshot read_checkpoint(const std::filesystem::path& checkpoint, const Tensors& tensors,
                         std::span<const std::string> optimizer_states);

}  // namespace ddp
