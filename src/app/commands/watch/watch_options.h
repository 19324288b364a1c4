// The command line of ddp_train watch.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace ddp {

struct WatchOptions {
  std::string run;  // folder
};

// Parses the arguments after "watch". A request for help sets `answer` to its text. Throws Error(Exit::usage).
WatchOptions parse_watch_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
