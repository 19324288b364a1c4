#include "app/commands/show_model/show_model_options.h"

#include "app/inputs/token_sizes.h"
#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <charconv>

namespace ddp {
namespace {

constexpr int64_t kLargestSide = 16384, kMostChannels = 4096;

// HxWxC
ImageShape image_in(const std::string& text) {
  ImageShape image;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int64_t* const number : {&image.h, &image.w, &image.c}) {
    const auto [rest, error] = std::from_chars(at, end, *number);
    const bool last = number == &image.c;
    const bool fits = error == std::errc() && *number >= 1 && *number <= (last ? kMostChannels : kLargestSide);
    require(fits && (last ? rest == end : rest != end && *rest == 'x'), Exit::usage,
            "--image {}: give height, width and channels, such as 224x224x3", text);
    at = last ? rest : rest + 1;
  }
  return image;
}

}  // namespace

ShowModelOptions parse_show_model_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  ShowModelOptions options;
  std::string image;
  int64_t classes = 0;
  CLI::App app(
      "Shows a network: its layers with their shapes, parameters, FLOP and memory, what is fused, and what a rank "
      "takes "
      "in training. Trains nothing.",
      "ddp_train show-model");
  app.add_option("MODEL_OR_RUN", options.model,
                 "the name of a network, a file FILE.toml that describes one, the folder of a run, a checkpoint, or a "
                 "safetensors file")
      ->required();
  app.add_option("--image", image,
                 "height, width and channels of the images; default: those of the run, else 224x224x3");
  app.add_option("--classes", classes, "number of classes; default: those of the run, else 1000")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--sequence-length", options.sequence_length,
                 "tokens that a network reads; default: those of the run, else as many as its positions, else 1024")
      ->check(CLI::Range(int64_t{1}, kLongestSequence));
  app.add_option("--vocab-size", options.vocabulary_size,
                 "tokens of its vocabulary; default: those of the run, else 50257")
      ->check(CLI::Range(int64_t{1}, kMostVocabulary));
  app.add_option("--batch-size", options.batch, "images or sequences of a rank, for its memory in training")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--freeze", options.freeze, "parameters that keep their values, as in a training");
  app.add_option("--svg", options.drawing, "draw the network to this file, which must not exist");
  if (!parse_command(app, arguments, answer)) return options;
  if (!image.empty()) options.image = image_in(image);
  if (classes > 0) options.classes = classes;
  require(options.drawing.empty() || options.drawing.ends_with(".svg"), Exit::usage,
          "--svg {}: the name must end in .svg", options.drawing);
  return options;
}

}  // namespace ddp
