#include "app/config_file.h"

#include "core/error.h"

#include <CLI/CLI.hpp>
#include <toml++/toml.h>

#include <sstream>

namespace ddp {
namespace {

std::string text_of(const toml::node& node, std::string_view key) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto whole = node.value_exact<int64_t>()) return fmt::format("{}", *whole);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  fail(Exit::usage, "configuration file, line {}: {} must be a number, a string, true, false or an array of them",
       node.source().begin.line, key);
}

// Reads with toml++; writing stays CLI11's.
class TomlReader : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override try {
    std::vector<CLI::ConfigItem> read;
    const toml::table table = toml::parse(input);
    for (const auto& [key, node] : table) {
      CLI::ConfigItem item;
      item.name = key.str();
      if (const toml::array* array = node.as_array())
        for (const toml::node& entry : *array) item.inputs.push_back(text_of(entry, key.str()));
      else
        item.inputs = {text_of(node, key.str())};
      read.push_back(std::move(item));
    }
    return read;
  } catch (const toml::parse_error& e) {
    fail(Exit::usage, "configuration file, line {}: {}", e.source().begin.line, e.description());
  }
};

}  // namespace

std::shared_ptr<CLI::Config> make_toml_reader() { return std::make_shared<TomlReader>(); }

std::string toml_entry(const std::string& key, const std::string& value, bool text) {
  const toml::table entry{{key, value}};
  bool number = false;
  if (!text) try {
      const toml::table parsed = toml::parse(fmt::format("value = {}", value));
      number = parsed["value"].is_number();
    } catch (const toml::parse_error&) {  // such as .1 or inf, which command lines take
    }
  if (number) return fmt::format("{} = {}\n", key, value);
  std::ostringstream quoted;
  quoted << entry << '\n';
  return quoted.str();
}

}  // namespace ddp
