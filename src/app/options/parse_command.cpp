#include "app/options/parse_command.h"

#include "core/error.h"

#include <CLI/CLI.hpp>

#include <sstream>
#include <vector>

namespace ddp {

bool parse_command(CLI::App& app, std::span<const std::string> arguments, std::optional<std::string>& answer) {
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return true;
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    app.exit(e, text, text);
    answer = text.str();
    return false;
  } catch (const CLI::ParseError& e) {
    fail(Exit::usage, "{}; {} --help lists the options", e.what(), app.get_name());
  }
}

}  // namespace ddp
