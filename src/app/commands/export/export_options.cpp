#include "app/commands/export/export_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

namespace ddp {

ExportOptions parse_export_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  ExportOptions options;
  DescriptionOptions description;
  CLI::App app(
      "Writes a trained network to one file for other programs: ONNX with a free batch size, or safetensors with "
      "PyTorch's names. Names of classes, mean, std and sizes are in the metadata.",
      "ddp_train export");
  app.add_option("RUN_OR_MODEL", options.weights, "folder of a run, checkpoint, or safetensors file")->required();
  app.add_flag("--ema", options.ema, "export the average of the weights, of a run with --model-ema");
  std::string format = "onnx";
  app.add_option("--format", format, "form of the file")
      ->check(CLI::IsMember({"onnx", "safetensors"}))
      ->capture_default_str();
  app.add_option("--output", options.output,
                 "the file, which must not exist; default: the name of the network with .onnx or .safetensors, in this "
                 "folder");
  app.add_flag("--fold-batch-norm", options.fold_batch_norm,
               "put each batch norm into the convolution or linear layer before it, where that is exact");
  app.add_flag("--with-preprocessing", options.preprocessing,
               "ONNX: the input is bytes (batch, height, width, channels), and the graph normalizes them");
  description.declare(app);
  if (!parse_command(app, arguments, answer)) return options;
  options.format = format == "onnx" ? ExportFormat::onnx : ExportFormat::safetensors;
  require(!options.preprocessing || options.format == ExportFormat::onnx, Exit::usage,
          "--with-preprocessing needs --format onnx: a safetensors file has no graph");
  require(options.output.empty() || options.output.ends_with(options.ending()), Exit::usage,
          "--output {}: the name must end in {}", options.output, options.ending());
  options.network = description.read(app);
  return options;
}

}  // namespace ddp
