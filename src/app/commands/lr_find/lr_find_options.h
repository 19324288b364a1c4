// The command line of ddp_train lr-find.
#pragma once

#include "app/options/options.h"
#include "train/range_test/lr_curve.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct LrFindOptions {
  LrRange range;
  std::filesystem::path output = "lr-find.html";
  Options training;  // the rest of the command line
};

// Parses the arguments after "lr-find": its options, and those of a training that the test uses. A request for help
// sets `answer` to its text. Throws Error(Exit::usage), also for an option that the test does not use. A file of
// --config may have such options: it describes the run.
LrFindOptions parse_lr_find_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
