// The command line of ddp_train tokenize.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct TokenizeOptions {
  std::vector<std::string> texts;  // files and folders
  std::string vocabulary;          // "bytes", or a file of merges
  std::string output_folder;
  double val_split = 0;  // share of the bytes
};

// Parses the arguments after "tokenize". A request for help sets `answer` to its text. Throws Error(Exit::usage).
TokenizeOptions parse_tokenize_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
