// A trained network, read from its file, and the model that infers with it on a device.
#pragma once

#include "app/commands/predict/description_options.h"
#include "app/inputs/model_info.h"
#include "checkpoint/state_dict.h"
#include "device/buffer.h"
#include "device/device.h"
#include "nn/model.h"
#include "ops/ops.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// What the metadata of the weights say, or else the options. Throws Error: Exit::usage where options are missing or
// not needed, Exit::data for a broken file. Reads the file of --model.
ModelInfo model_info_of(const DescribedNetwork& described, const std::filesystem::path& weights);

struct TrainedNetwork {
  Network network;
  std::vector<Parameter> parameters;
  std::vector<BatchNormState> batch_norms;
  ModelState state;
  PixelScale pixel_scale;
};

// With an empty state. Throws Error: Exit::usage for an unknown network, Exit::model for a wrong graph.
TrainedNetwork network_without_weights(const ModelInfo& info);

// `note` receives a line about a prefix that is removed. Throws Error: Exit::data for a broken file, Exit::usage for an
// unknown network, Exit::model if the weights do not fit it.
TrainedNetwork read_trained_network(const ModelInfo& info, const std::filesystem::path& weights,
                                    const std::function<void(const std::string&)>& note);

// Before a model of the network is made: its sizes come from the file `weights`. Throws Error(Exit::data) where a batch
// of `batch` images does not fit into the memory of this process, which `processes` processes share.
void require_memory(const Network& network, int64_t batch, int processes, const std::filesystem::path& weights);

class InferenceModel {
 public:
  // Later calls run batches of these sizes. `trained`, device and ops outlive the model. On GPUs collective.
  InferenceModel(const TrainedNetwork& trained, std::span<const int64_t> batch_sizes, Device& device, Ops& ops);
  InferenceModel(const InferenceModel&) = delete;
  InferenceModel& operator=(const InferenceModel&) = delete;

  Model& model() { return model_; }
  const float* running_stats() const { return running_stats_.as<float>(); }

 private:
  const Buffer weights_, running_stats_;
  Model model_;
};

}  // namespace ddp
