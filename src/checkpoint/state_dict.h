// A model's weights and batch-norm statistics as a safetensors file, with the names and layouts of PyTorch's
// state_dict.
#pragma once

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_fit.h"
#include "nn/parameters.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Views of a model's state: the owner outlives them.
struct ModelStateView {
  std::span<const float> weights, statistics;
  int64_t updates = 0;
  std::span<const int64_t> frozen_updates = {};
};

struct ModelState {
  std::vector<float> weights;                // the flat parameter buffer
  std::vector<float> statistics;             // means and variances for evaluations, at the offsets of the batch norms
  int64_t updates = 0;                       // updates of the running averages: PyTorch's num_batches_tracked
  std::vector<int64_t> frozen_updates = {};  // the same of each frozen batch norm, in their order; empty: all 0

  ModelStateView view() const { return {weights, statistics, updates, frozen_updates}; }
};

// `metadata` with the entry "batch_norm_statistics", which says what the statistics of the file are: recomputed from
// `samples` training samples; 0: running averages. Without batch norms there is no entry.
Metadata with_statistics(Metadata metadata, std::span<const BatchNormState> batch_norms, int64_t samples);

// The same for the average of the weights, which the entry "weights" says.
Metadata of_average(Metadata metadata, std::span<const BatchNormState> batch_norms);

// Parameters in forward order, as PyTorch has them, then the batch norms' statistics. Views: all arguments
// outlive the sources.
std::vector<TensorSource> tensor_sources(std::span<const Parameter> parameters,
                                         std::span<const BatchNormState> batch_norms, const ModelStateView& state);

// The same with their values.
std::vector<NamedTensor> named_tensors(std::span<const Parameter> parameters,
                                       std::span<const BatchNormState> batch_norms, const ModelStateView& state);

// Writes the tensors of tensor_sources(). Throws Error(Exit::output).
void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const BatchNormState> batch_norms, const ModelStateView& state,
                     const Metadata& metadata = {});

// What load_state_dict() takes from the file besides the model's tensors, and says besides its errors.
struct LoadNotes {
  NamedNetwork network = {};                          // of the model, for errors; without a name "the model"
  std::vector<DerivedTensor> derived = {};            // derived_tensors() of the network
  std::function<void(const std::string&)> note = {};  // receives a line about a prefix that was changed; may be empty
};

// Removes a prefix that the names of all tensors share, and adds one that the names of the model share and those of the
// file lack; a missing num_batches_tracked is 0. Throws Error(Exit::data)
// where the file is broken; Error(Exit::model) where names or shapes do not match the model, with how many tensors fit,
// some that do not, and the program's network that fits better. The file's length bounds the memory that it allocates.
ModelState load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                           std::span<const BatchNormState> batch_norms, const LoadNotes& notes = {});

// The two parts of load_state_dict(): the text of the error that the tensors do not fit; and the state in tensors that
// do. `file`: in messages.
std::string misfit(const std::string& file, const std::map<std::string, NamedTensor>& tensors, const TensorFit& fit,
                   const NamedNetwork& network);
ModelState state_in(const std::map<std::string, NamedTensor>& tensors, const TensorFit& fit, const std::string& file,
                    std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
                    const LoadNotes& notes);

}  // namespace ddp
