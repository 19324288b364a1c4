// The command line of ddp_train predict.
#pragma once

#include "app/commands/predict/description_options.h"
#include "app/commands/predict/draw_token.h"
#include "app/commands/predict/prediction.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct PredictOptions {
  std::string weights;             // folder of a run, checkpoint, or safetensors file
  bool ema = false;                // the average of the weights, of a run or a checkpoint
  std::vector<std::string> files;  // see find_pictures(); for a network that reads tokens, texts to continue
  PredictionFormat format = PredictionFormat::text;
  std::string csv;  // new file for the lines, which are then csv; empty: none
  int top_k = 5;
  int threads = 0;  // 0: one for each core
  DrawConfig draw;
  int64_t most_tokens = 100;                       // of a continuation
  std::string vocabulary;                          // file, or "bytes"; empty: that of the run
  std::vector<std::string> of_pictures, of_texts;  // options that were given, for networks that read only these
  DescribedNetwork network;                        // for weights without metadata
};

// Parses the arguments after "predict". A request for help sets `answer` to its text. Reads the file of --class-names.
// Throws Error(Exit::usage), and Error(Exit::data) where that file cannot be read.
PredictOptions parse_predict_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
