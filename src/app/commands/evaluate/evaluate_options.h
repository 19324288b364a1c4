// The command line of ddp_train evaluate.
#pragma once

#include "app/commands/predict/description_options.h"
#include "app/options/options.h"

#include <optional>
#include <span>
#include <string>

namespace ddp {

struct EvaluateOptions {
  std::string weights;       // folder of a run, checkpoint, or safetensors file
  bool ema = false;          // the average of the weights, of a run or a checkpoint
  DescribedNetwork network;  // for weights without metadata
  Options options;           // data, batch, seed, device, step_timeout, output.dir; an empty output.dir: no files
};

// Parses the arguments after "evaluate". A request for help sets `answer` to its text. Reads the file of --class-names.
// Throws Error(Exit::usage), and Error(Exit::data) where that file cannot be read.
EvaluateOptions parse_evaluate_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
