#include "app/options/config_file.h"

#include "app/options/parameter_groups.h"
#include "core/error.h"
#include "core/toml.h"

#include <CLI/CLI.hpp>

#include <istream>
#include <sstream>
#include <string>
#include <vector>

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

// toml++ recurses for each dot of a key. The limit keeps a file of many dots from overflowing the stack.
std::string read_text(std::istream& input) {
  constexpr size_t kLongest = 1 << 16;
  std::string text(kLongest + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(input.gcount()));
  require(text.size() <= kLongest, Exit::usage, "configuration file: longer than {} bytes, the limit", kLongest);
  return text;
}

// The tables [[group]] as the value of --group.
std::string text_of_tables(const toml::array& tables) {
  std::vector<ParameterGroup> groups;
  for (const toml::node& node : tables) {
    std::string match;
    GroupValues values;
    for (const auto& [name, value] : *node.as_table()) {
      const std::string key(name.str()), text = text_of(value, key);
      if (key == "match")
        match = text;
      else
        values.emplace_back(key, text);
    }
    groups.push_back(group_of(groups.size() + 1, match, values));
  }
  return text_of_groups(groups);
}

CLI::ConfigItem item_of(const std::string& key, const toml::node& node) {
  const auto line = node.source().begin.line;
  // CLI11 gives "++" and "--" another meaning.
  require(!key.empty() && key.front() != '-' && key.front() != '+', Exit::usage,
          "configuration file, line {}: \"{}\": keys are the long options without dashes", line, key);
  CLI::ConfigItem item;
  item.name = key;
  const toml::array* const array = node.as_array();
  if (key == "group" && array && array->is_array_of_tables())
    item.inputs = {text_of_tables(*array)};
  else if (array)
    for (const toml::node& entry : *array) item.inputs.push_back(text_of(entry, key));
  else
    item.inputs = {text_of(node, key)};
  require(!item.inputs.empty(), Exit::usage, "configuration file, line {}: {} is an empty array; leave it out", line,
          key);
  return item;
}

// Reads with toml++.
class TomlReader : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override try {
    std::vector<CLI::ConfigItem> read;
    for (const auto& [key, node] : toml::parse(read_text(input))) read.push_back(item_of(std::string(key.str()), node));
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
