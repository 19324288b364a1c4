#include "app/options/parse_command.h"

#include "core/error.h"
#include "core/printable.h"

#include <CLI/CLI.hpp>

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace ddp {

namespace {

// CLI11 lets the last one of repeated flags win, and joins repeated lists.
void refuse_repeated(const CLI::App& app, std::span<const std::string> words) {
  std::set<std::string> names;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const CLI::Option* const option = name.starts_with("--") ? app.get_option_no_throw(name) : nullptr;
    if (!option) continue;
    require(names.insert(name).second, Exit::usage, "{} is given twice; leave one of them out", name);
    if (equals == name.npos && option->get_expected_min() > 0) ++i;  // its value
  }
}

}  // namespace

bool parse_command(CLI::App& app, std::span<const std::string> arguments, std::optional<std::string>& answer) {
  refuse_repeated(app, arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return true;
  } catch (const CLI::Success& e) {
    std::ostringstream text;
    app.exit(e, text, text);
    answer = text.str();
    return false;
  } catch (const CLI::ExtrasError&) {  // its text has them in reverse
    const std::vector<std::string> extras = app.remaining();
    fail(Exit::usage, "not expected: {}; {} --help lists the options", first_names(extras), app.get_name());
  } catch (const CLI::ConfigError& e) {
    fail(Exit::usage, "configuration file: {}; its keys are the long options without dashes, see {} --help", e.what(),
         app.get_name());
  } catch (const CLI::ParseError& e) {
    fail(Exit::usage, "{}; {} --help lists the options", e.what(), app.get_name());
  }
}

}  // namespace ddp
