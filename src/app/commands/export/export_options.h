// The command line of ddp_train export.
#pragma once

#include "app/commands/predict/description_options.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

enum class ExportFormat : uint8_t { onnx, safetensors };

struct ExportOptions {
  std::string weights;       // folder of a run, checkpoint, or safetensors file
  DescribedNetwork network;  // for weights without metadata
  bool ema = false;          // the average of the weights, of a run with --model-ema
  ExportFormat format = ExportFormat::onnx;
  std::string output;  // empty: the name of the network with the ending of the format
  bool fold_batch_norm = false;
  bool preprocessing = false;  // in the graph

  const char* ending() const { return format == ExportFormat::onnx ? ".onnx" : ".safetensors"; }
};

// Parses the arguments after "export". A request for help sets `answer` to its text. Reads the file of --class-names.
// Throws Error(Exit::usage), and Error(Exit::data) where that file cannot be read.
ExportOptions parse_export_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
