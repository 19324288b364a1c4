// The command line of ddp_train show.
#pragma once

#include "app/options/options.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct ShowOptions {
  std::string grid;     // PNG file; empty: none
  std::string batches;  // NPY file; empty: none
  int64_t steps = 0;    // whose batches are written
  int64_t epoch = 1;    // from 1
  Options training;     // the rest of the command line
};

// Parses the arguments after "show": the options of show, and all options of a training. A request for help sets
// `answer` to its text. Throws Error(Exit::usage).
ShowOptions parse_show_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
