// The parsing of the words of a command.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace CLI {
class App;
}

namespace ddp {

// Parses the arguments after the command, which is the name of `app`. Returns false after a request for help or the
// version, and sets `answer` to its text. Throws Error(Exit::usage), also where an option is given twice; the command
// line and the file of --config may both have an option.
bool parse_command(CLI::App& app, std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
