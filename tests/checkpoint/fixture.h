// A temporary folder of checkpoints, and snapshots to write into it.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor_fit.h"
#include "core/error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace ddp {

namespace fs = std::filesystem;

inline const std::vector<std::string> kCheckpointFiles = {"model.safetensors", "optimizer.safetensors", "state.json"};

inline std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

// The same tensors, for write_safetensors().
inline std::vector<TensorSource> sources_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSource> sources;
  for (const NamedTensor& t : tensors)
    sources.push_back(
        {.name = t.name, .shape = t.shape, .values = [values = t.values] { return values; }, .integer = t.integer});
  return sources;
}

// The error that `call` throws.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return {Exit::done, ""};
}

inline void expect_error(const Error& error, Exit code, const std::string& part) {
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

// The values of a network. Every parameter element has a different value; gaps are zero.
struct Weights {
  std::vector<Parameter> parameters;
  std::vector<BatchNormState> batch_norms;

  Tensors tensors() const {
    return {.parameters = parameters, .batch_norms = batch_norms, .metadata = {{"model", "a\tnetwork"}}};
  }
  std::vector<float> values(float scale) const {
    std::vector<float> flat(flat_count(parameters));
    for (const Parameter& p : parameters)
      for (int64_t i = 0; i < p.count; ++i)
        flat[p.offset + i] = scale * static_cast<float>(100'000 * p.layer + 2 * i + (p.pytorch_shape.size() > 1)) / 7;
    return flat;
  }
  Snapshot snapshot(int64_t step) const {
    const auto scale = static_cast<float>(step);
    Snapshot snapshot{.model = {.weights = values(scale),
                                .statistics = initial_state(batch_norms),
                                .updates = batch_norms.empty() ? 0 : step},
                      .optimizer = {{"exp_avg", values(-scale)}, {"exp_avg_sq", values(scale / 3)}},
                      .run = {}};
    for (float& value : snapshot.model.statistics) value += scale;
    snapshot.run.step = step;
    snapshot.run.samples = 256 * step;
    return snapshot;
  }
};

// The tensors of a network's state dict, all of ones; num_batches_tracked is 7.
inline std::vector<NamedTensor> tensors_of_ones(const Network& model) {
  std::vector<NamedTensor> tensors;
  for (const NeededTensor& needed : state_dict_of(parameters_of(model), batch_norm_states_of(model))) {
    int64_t count = 1;
    for (const int64_t n : needed.shape) count *= n;
    if (needed.shape.empty())
      tensors.push_back({.name = needed.name, .shape = {}, .integer = 7});
    else
      tensors.push_back({needed.name, needed.shape, std::vector<float>(count, 1)});
  }
  return tensors;
}

// A linear layer with eight weights. Its files are short enough to flip every bit.
inline Weights few_weights() {
  return {.parameters = {{.name = "0.weight",
                          .layer = 0,
                          .role = Parameter::Role::weight,
                          .out = 2,
                          .in = {1, 1, 3},
                          .offset = 0,
                          .count = 6,
                          .pytorch_shape = {2, 3}},
                         {.name = "0.bias",
                          .layer = 0,
                          .role = Parameter::Role::bias,
                          .out = 2,
                          .in = {},
                          .offset = 16,
                          .count = 2,
                          .pytorch_shape = {2}}},
          .batch_norms = {}};
}

inline const std::vector<std::string> kAdam = {"exp_avg", "exp_avg_sq"};

class CheckpointFolder : public ::testing::Test {
 protected:
  fs::path write(int64_t step, bool best = false) const {
    return write_checkpoint(folder, weights.snapshot(step).view(), weights.tensors(), best);
  }
  Snapshot read(const fs::path& checkpoint) const { return read_checkpoint(checkpoint, weights.tensors(), kAdam); }
  std::vector<std::string> names() const {  // all entries of the folder
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }

  const Weights weights = few_weights();
  const TempFolder temp;
  const fs::path run = temp.path(), folder = run / "checkpoints";
};

}  // namespace ddp
