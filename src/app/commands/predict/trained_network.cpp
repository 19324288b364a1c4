#include "app/commands/predict/trained_network.h"

#include "app/inputs/model_source.h"
#include "core/control_group.h"
#include "core/error.h"
#include "nn/memory_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace ddp {
namespace {

namespace fs = std::filesystem;

Buffer upload(Device& device, const std::vector<float>& values) {
  Buffer buffer(device, bytes_of_floats(std::ssize(values)));
  if (!values.empty()) device.upload(buffer.data(), values.data(), buffer.bytes());
  return buffer;
}

ModelConfig inference_config(const PixelScale& pixel_scale) {
  ModelConfig config;
  config.inference = true;
  config.pixel_scale = pixel_scale;
  return config;
}

// Refuses the options of networks that read something else.
void require_fit(const DescribedNetwork& described, bool tokens) {
  constexpr std::string_view kOfTokens[] = {"--sequence-length", "--vocab-size"};
  for (const std::string& name : described.given)
    require(name == "--model" || (std::ranges::find(kOfTokens, name) != std::end(kOfTokens)) == tokens, Exit::usage,
            "{} is for a network that reads {}: leave it out", name, tokens ? "images" : "tokens");
}

ModelInfo info_of_tokens(const DescribedNetwork& described, const ModelFile& source) {
  ModelInfo info;
  const auto [length, vocabulary] =
      complete({described.sequence_length, described.vocabulary_size}, source, described.info.model);
  info.classes = vocabulary;
  info.sequence_length = length;
  info.image = {info.sequence_length, 1, 1};
  return info;
}

}  // namespace

ModelInfo model_info_of(const DescribedNetwork& described, const fs::path& weights) {
  const auto stored = model_info_in(read_safetensors_metadata(weights), weights.string());
  if (stored) {
    require(described.given.empty(), Exit::usage, "{} is for weights without metadata, but {} has them: leave it out",
            fmt::join(described.given, ", "), weights.string());
    return *stored;
  }
  const std::string& model = described.info.model;
  if (model.empty()) {
    const std::span<const std::string> others = std::span(described.missing).subspan(1);
    fail(Exit::usage, "{} has no metadata of ddp_train, which say what the network reads; give --model{}{} too",
         weights.string(), others.empty() ? "" : ", and for a network that reads images ", fmt::join(others, ", "));
  }
  const ModelFile source = read_model_source(model);
  const bool tokens = reads_tokens(source, model);
  require_fit(described, tokens);
  require(tokens || described.missing.empty(), Exit::usage,
          "{} has no metadata of ddp_train, which say what the network reads; give {} too", weights.string(),
          fmt::join(described.missing, ", "));
  ModelInfo info = tokens ? info_of_tokens(described, source) : described.info;
  info.model = source.name;
  info.graph = source.text;
  return info;
}

TrainedNetwork network_without_weights(const ModelInfo& info) {
  const std::string where = info.model + ".toml";
  const bool tokens = reads_tokens(info.source(), where);
  require(tokens == info.reads_tokens(), Exit::data, "the metadata say that {} reads {}, and its graph reads {}",
          info.model, tokens ? "images" : "tokens", tokens ? "tokens" : "images");
  Network network = network_of(info.source(), where, info.image, info.classes);
  std::vector<Parameter> parameters = parameters_of(network);
  std::vector<BatchNormState> batch_norms = batch_norm_states_of(network);
  return {.network = std::move(network),
          .parameters = std::move(parameters),
          .batch_norms = std::move(batch_norms),
          .state = {},
          .pixel_scale = info.pixel_scale};
}

TrainedNetwork read_trained_network(const ModelInfo& info, const fs::path& weights,
                                    const std::function<void(const std::string&)>& note) {
  TrainedNetwork trained = network_without_weights(info);
  trained.state = load_state_dict(
      weights, trained.parameters, trained.batch_norms,
      {.network = {info.model, info.image, info.classes}, .derived = derived_tensors(trained.network), .note = note});
  return trained;
}

void require_memory(const Network& network, int64_t batch, int processes, const fs::path& weights) {
  const ImageShape image = network.input();
  const bool tokens = network.reads_tokens();
  const int64_t bytes = least_inference_bytes(network, batch) + batch * image.elements();
  const int64_t limit = memory_limit() / processes;
  const std::string size = tokens ? fmt::format("{} tokens", image.h) : fmt::format("{} x {} pixels", image.w, image.h);
  require(bytes <= limit, Exit::data,
          "{}: on {} {}{} of {}, {} takes {} MiB or more, and this process may use {} MiB; use {}, if this size "
          "is right",
          weights.string(), batch, tokens ? "sequence" : "image", batch == 1 ? "" : "s", size, network.name(),
          bytes >> 20, limit >> 20, batch == 1 ? "a machine with more memory" : "smaller batches");
}

InferenceModel::InferenceModel(const TrainedNetwork& trained, std::span<const int64_t> batch_sizes, Device& device,
                               Ops& ops)
    : weights_(upload(device, trained.state.weights)),
      running_stats_(upload(device, trained.state.statistics)),
      model_(trained.network, trained.parameters, trained.batch_norms, batch_sizes, device, ops,
             {.weights = weights_.as<float>(), .running_stats = running_stats_.as<float>()},
             inference_config(trained.pixel_scale)) {}

}  // namespace ddp
