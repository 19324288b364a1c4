#include "app/commands/show_model/show_model.h"

#include "app/commands/show_model/layer_table.h"
#include "app/commands/show_model/network_boxes.h"
#include "app/commands/show_model/show_model_options.h"
#include "app/inputs/model_info.h"
#include "app/inputs/model_source.h"
#include "checkpoint/find_weights.h"
#include "comm/local/communicator.h"
#include "comm/mpi/launcher.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/split.h"
#include "device/cpu/device.h"
#include "device/planning_memory.h"
#include "nn/freeze.h"
#include "nn/memory_plan.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "train/step/replica.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

struct ShownNetwork {
  Network network;
  ModelFile source;
};

struct ShownInput {
  ImageShape image;
  int64_t classes;
};

ShownInput shown_input(const ShowModelOptions& options, const ModelFile& source, const std::string& where,
                       const std::optional<ModelInfo>& info) {
  const bool tokens = reads_tokens(source, where);
  const auto refuse = [&](bool given, const char* option) {
    require(!given, Exit::usage, "{}: {} reads {}, not {}; leave the option out", option, printable(source.name),
            tokens ? "tokens" : "images", tokens ? "images" : "tokens");
  };
  if (!tokens) {
    refuse(options.sequence_length > 0, "--sequence-length");
    refuse(options.vocabulary_size > 0, "--vocab-size");
    return {.image = options.image.value_or(info ? info->image : kShownImage),
            .classes = options.classes.value_or(info ? info->classes : kShownClasses)};
  }
  refuse(options.image.has_value(), "--image");
  refuse(options.classes.has_value(), "--classes");
  TokenInput input{.length = options.sequence_length, .vocabulary = options.vocabulary_size};
  if (input.vocabulary == 0 && info) input.vocabulary = info->classes;
  if (input.length == 0 && info) input.length = info->sequence_length;
  input = complete(input, source, where);
  return {.image = {input.length, 1, 1}, .classes = input.vocabulary};
}

// Weights are what exists and is neither the name of a network nor that of a file of one.
ShownNetwork shown_network(const ShowModelOptions& options) {
  std::error_code ignored;
  const fs::path path = options.model;
  const bool is_name = is_model_path(options.model) || std::ranges::any_of(built_in_models(), [&](const ModelFile& m) {
                         return m.name == options.model;
                       });
  const bool is_weights = !is_name && fs::exists(path, ignored);
  ModelFile source;
  std::optional<ModelInfo> info;
  std::string where = options.model;
  if (is_weights) {
    const fs::path weights = find_weights(path, Log(0));
    where = printable(weights.native());
    info = model_info_in(read_safetensors_metadata(weights), where);
    require(info.has_value(), Exit::data,
            "{} has no metadata of ddp_train, which say what the network is; give the name of the network", where);
    source = info->source();
  } else {
    source = read_model_source(options.model);
  }
  const auto [image, classes] = shown_input(options, source, where, info);
  Network network = network_of(source, where, image, classes);
  if (!options.freeze.empty()) network = freeze(network, split(options.freeze, ','));
  return {std::move(network), std::move(source)};
}

// What a rank takes in training with SGD and momentum, by the plan of a CPU. Builds the replica in address space, so it
// refuses what a training refuses.
std::string describe_memory(const Network& network, int64_t batch) {
  constexpr double mebibyte = 1 << 20;
  PlanningMemory memory;
  const auto device = make_cpu_device(memory);
  const auto ops = make_cpu_ops(*device, {});
  const auto alone = std::move(make_local_communicators(1).front());
  ReplicaConfig config{.batch_sizes = {batch}};
  config.optimizer.momentum = 0.9f;
  const Replica replica(network, config, *device, *ops, *alone);
  return fmt::format(
      "a rank with {} {}{}: {:.0f} MiB in training on a CPU (of these {:.0f} MiB are activations and their "
      "gradients), {:.0f} MiB of activations in inference\n",
      batch, network.reads_tokens() ? "sequence" : "image", batch == 1 ? "" : "s",
      static_cast<double>(memory.peak()) / mebibyte, static_cast<double>(replica.model.arena().bytes()) / mebibyte,
      static_cast<double>(least_inference_bytes(network, batch)) / mebibyte);
}

}  // namespace

Exit show_model(std::span<const std::string> arguments, std::FILE* out) {
  const Environment environment = environment_of_process();
  if (!first_at_launch(environment)) return Exit::done;
  std::optional<std::string> answer;
  const ShowModelOptions options = parse_show_model_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  require_one_rank(environment, "show-model");
  const auto [network, source] = shown_network(options);
  const auto& [h, w, c] = network.input();
  const std::string input = network.reads_tokens() ? fmt::format("sequences of {} tokens", h)
                                                   : fmt::format("images of {} x {} x {}", h, w, c);
  std::string text = fmt::format("{}, {}\n\n", printable(describe(source)), input);
  text += layer_table(network) + describe_memory(network, options.batch);
  if (!options.drawing.empty()) {
    report::NetworkDrawing drawing = drawing_of(network);
    require(drawing.boxes.size() <= report::kMostBoxes, Exit::usage,
            "--svg: {} layers are too many for a drawing, which has at most {}", drawing.boxes.size(),
            report::kMostBoxes);
    NewFile file(options.drawing);
    file.write(report::draw_network(drawing));
    NewFile::keep(std::array{&file});
    text += printable(options.drawing) + "\n";
  }
  write_output(out, text, "the table of layers");
  return Exit::done;
}

}  // namespace ddp
