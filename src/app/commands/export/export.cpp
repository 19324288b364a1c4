#include "app/commands/export/export.h"

#include "app/commands/export/export_options.h"
#include "app/commands/export/exported_network.h"
#include "app/commands/export/onnx_model.h"
#include "app/commands/predict/trained_network.h"
#include "checkpoint/find_weights.h"
#include "comm/mpi/launcher.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "core/printable.h"
#include "nn/token_network.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Those of the weights that say what the network is.
Metadata metadata_of(const ModelInfo& info, const fs::path& weights) {
  constexpr const char* kStatistics = "batch_norm_statistics";
  Metadata metadata = info.to_metadata();
  const Metadata given = read_safetensors_metadata(weights);
  if (const auto found = given.find(kStatistics); found != given.end()) metadata.insert(*found);
  return metadata;
}

ExportedNetwork read_network(const ModelInfo& info, const fs::path& weights) {
  TrainedNetwork trained =
      read_trained_network(info, weights, [](const std::string& line) { Log(0).warn("{}", line); });
  ExportedNetwork exported{.network = std::move(trained.network),
                           .tensors = named_tensors(trained.parameters, trained.batch_norms, trained.state.view())};
  require_finite(exported, printable(weights.native()));
  return exported;
}

std::string description(const ExportOptions& options, const ModelInfo& info, const Network& network, int folded,
                        int64_t batch_norms) {
  const ImageShape image = info.image;
  std::string text = info.model;
  const std::string length = is_causal(network) ? "sequence" : fmt::format("{}", image.h);
  if (info.reads_tokens() && options.format == ExportFormat::onnx)
    text += fmt::format(", input i64 (batch, {0}), logits f32 (batch, {0}, {1})", length, info.classes);
  else if (options.preprocessing)
    text += fmt::format(", input u8 (batch, {}, {}, {})", image.h, image.w, image.c);
  else if (options.format == ExportFormat::onnx)
    text += fmt::format(", input f32 (batch, {}, {}, {})", image.c, image.h, image.w);
  if (options.format == ExportFormat::onnx && !info.reads_tokens())
    text += fmt::format(", logits f32 (batch, {})", info.classes);
  if (options.fold_batch_norm) text += fmt::format(", {} of {} batch norms folded", folded, batch_norms);
  return text;
}

}  // namespace

Exit export_network(std::span<const std::string> arguments, std::FILE* out) {
  const Environment environment = environment_of_process();
  if (!first_at_launch(environment)) return Exit::done;
  std::optional<std::string> answer;
  const ExportOptions options = parse_export_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  require_one_rank(environment, "export");

  const fs::path weights = find_weights(options.weights, Log(0), options.ema);
  const ModelInfo info = model_info_of(options.network, weights);
  require(!options.preprocessing || !info.reads_tokens(), Exit::usage,
          "--with-preprocessing is for a network that reads images, and {} reads tokens: leave it out", info.model);
  const TrainedNetwork planned = network_without_weights(info);
  if (options.format == ExportFormat::onnx)
    require_onnx_holds(static_cast<int64_t>(sizeof(float)) *
                       (total_count(planned.parameters) + state_count(planned.batch_norms)));
  const std::string output = options.output.empty() ? info.model + options.ending() : options.output;
  NewFile file(output);  // before the weights are read, so that a wrong name costs no time
  ExportedNetwork exported = read_network(info, weights);
  const int folded = options.fold_batch_norm ? fold_batch_norms(exported) : 0;
  const Metadata metadata = metadata_of(info, weights);
  file.write(
      options.format == ExportFormat::onnx
          ? onnx_model(exported, options.preprocessing ? std::optional(info.pixel_scale) : std::nullopt, metadata)
          : safetensors_content(exported.tensors, metadata));
  NewFile::keep(std::array{&file});
  write_output(out,
               fmt::format("{}: {}\n", printable(output),
                           description(options, info, planned.network, folded, std::ssize(planned.batch_norms))),
               "the line about the file");
  return Exit::done;
}

}  // namespace ddp
