// The command line of ddp_train show-model.
#pragma once

#include "core/shape.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct ShowModelOptions {
  std::string model;  // a built-in network, a file, or weights: a run, a checkpoint, a safetensors file
  std::optional<ImageShape> image = {};  // none: that of the weights, else kShownImage
  std::optional<int64_t> classes = {};   // none: those of the weights, else kShownClasses
  // Of a network that reads tokens; 0: those of the weights, else those of complete().
  int64_t sequence_length = 0, vocabulary_size = 0;
  int64_t batch = 32;        // images or sequences of a rank
  std::string freeze = {};   // as in a training
  std::string drawing = {};  // SVG file, which does not exist; empty: none
};

inline constexpr ImageShape kShownImage = {224, 224, 3};
inline constexpr int64_t kShownClasses = 1000;

// Parses the arguments after "show-model". A request for help sets `answer` to its text. Throws Error(Exit::usage).
ShowModelOptions parse_show_model_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
