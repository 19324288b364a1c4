// The parsing of a command such as "predict", which is not a training.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace ddp {

// Parses the arguments after the command, which is the name of `app`. Returns false after a request for help, and sets
// `answer` to its text. Throws Error(Exit::usage).
bool parse_command(CLI::App& app, std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
