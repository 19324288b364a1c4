// A checkpoint is a folder with everything that a resumed run needs. It holds whole named tensors, so that any number
// of ranks on any device can load it:
//
//   checkpoints/step-00001234/model.safetensors       weights and batch-norm statistics, as PyTorch's state_dict
//                             model_ema.safetensors   the average of both, of a run with --model-ema
//                             optimizer.safetensors   "<parameter>.<state>" of trained parameters, in PyTorch's
//                                                     layouts; running averages; "<parameter>.residual.<host>"
//                                                     of a run with gradients in int8
//                             state.json              RunState
//                             manifest.json           size and CRC-32 of each file above
//   checkpoints/latest, checkpoints/best              links to such folders
//
// The statistics of model.safetensors are those of the evaluation at this step. Without an evaluation, as inside an
// epoch, they are the running averages. The metadata entry "batch_norm_statistics" says which. If they are recomputed,
// optimizer.safetensors has the running averages, as "<layer>.running_mean" and "<layer>.running_var".
//
// The writer fills a temporary folder beside it, flushes it to the disk and renames it: a folder with a checkpoint's
// name is complete, unless the disk has lost data later. Nothing here communicates; rank 0 calls it.
#pragma once

#include "checkpoint/run_state.h"
#include "checkpoint/state_dict.h"
#include "nn/parameters.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct OptimizerState {
  std::string name;           // PyTorch's, such as "momentum_buffer"
  std::vector<float> values;  // in the layout of the flat parameter buffer, of the trained parameters
};

struct OptimizerStateView {
  std::string name;
  std::span<const float> values;
};

// Views of a snapshot's values: the owner outlives them.
struct SnapshotView {
  ModelStateView model;                        // with the statistics of the evaluation at this step, if there was one
  std::span<const float> running_stats = {};   // running averages, laid out as `model.statistics`; empty: equal to them
  std::optional<ModelStateView> average = {};  // none: the run has no average
  std::vector<OptimizerStateView> optimizer;
  std::vector<std::span<const float>> residuals = {};  // of each host, laid out as `optimizer`
  RunState run;
};

struct Snapshot {
  ModelState model;
  std::vector<float> running_stats = {};  // as in SnapshotView
  std::optional<ModelState> average = {};
  std::vector<OptimizerState> optimizer;
  std::vector<std::vector<float>> residuals = {};
  RunState run;

  SnapshotView view() const;
};

// Descriptions of the model's tensors. Views: the owner outlives them.
struct Tensors {
  std::span<const Parameter> parameters;
  std::span<const BatchNormState> batch_norms;
  Metadata metadata = {};  // of model.safetensors, without "batch_norm_statistics"; reading ignores it
};

// Writes `folder`/step-NNNNNNNN and returns its path. Replaces a checkpoint of that name, creates `folder` in its
// parent, and points `latest` to the new checkpoint; `best` too with `best` set. Calls `about_to_write` with the path
// of each file before it writes the file; an exception from it counts as a failed write. Throws Error(Exit::output) and
// then leaves no temporary file behind.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const SnapshotView& snapshot,
                                       const Tensors& tensors, bool best,
                                       const std::function<void(const std::filesystem::path&)>& about_to_write = {});

// These read a checkpoint and verify the size and the checksum of each file. They throw Error(Exit::data) with the name
// of a missing or damaged file and the damage, and Error(Exit::model) where the tensors do not match the model. They
// allocate no more memory than the files have bytes.
RunState read_run_state(const std::filesystem::path& checkpoint);
Snapshot read_checkpoint(const std::filesystem::path& checkpoint, const Tensors& tensors,
                         std::span<const std::string> optimizer_states, bool with_average = false);

}  // namespace ddp
