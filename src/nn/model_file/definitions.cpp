#include "nn/model_file/definitions.h"

#include "core/printable.h"
#include "nn/model_file/kinds.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

constexpr size_t kMostBlockParameters = 64;

void require_known_keys(const toml::table& table, const std::string& where, const std::string& what,
                        const std::vector<std::string_view>& known) {
  for (const auto& [key, node] : table)
    if (std::ranges::find(known, key.str()) == known.end())
      throw ModelFileError(
          where, node,
          fmt::format("\"{}\" is no key of {}; the keys are: {}", shortened(key.str()), what, fmt::join(known, ", ")));
}

// Null: the key is not there.
const toml::table* table_of(const toml::table& parent, std::string_view key, const std::string& where) {
  const toml::node* const node = parent.get(key);
  if (node && !node->is_table()) throw ModelFileError(where, *node, fmt::format("{} must be a table", key));
  return node ? node->as_table() : nullptr;
}

const toml::table* read_defaults(const toml::table& file, const std::string& where) {
  const toml::table* const defaults = table_of(file, "defaults", where);
  if (!defaults) return nullptr;
  std::vector<std::string_view> kinds;
  for (const ModelKind& kind : model_kinds())
    if (!kind.options.empty()) kinds.push_back(kind.key);
  require_known_keys(*defaults, where, "[defaults]", kinds);
  for (const ModelKind& kind : model_kinds())
    if (const toml::table* const options = table_of(*defaults, kind.key, where))
      require_known_keys(*options, where, fmt::format("[defaults.{}]", kind.key), kind.options);
  return defaults;
}

void require_parameters(const toml::table& parameters, const std::string& where, const std::string& what) {
  constexpr std::string_view kTaken[] = {"block", "repeat", "inline", "name", "label", "from", "classes", "index"};
  if (parameters.size() > kMostBlockParameters)
    throw ModelFileError(where, parameters, fmt::format("{} has more than {} parameters", what, kMostBlockParameters));
  for (const auto& [key, node] : parameters) {
    const std::string_view name = key.str();
    const bool is_variable = is_model_name(name) && name.find_first_of(".-") == std::string_view::npos &&
                             !(name.front() >= '0' && name.front() <= '9');
    if (!is_variable)
      throw ModelFileError(
          where, node,
          fmt::format("{}: the parameter \"{}\" must have letters, digits and _ only, and no digit first", what,
                      shortened(name)));
    if (std::ranges::find(kTaken, name) != std::end(kTaken))
      throw ModelFileError(
          where, node,
          fmt::format("{}: \"{}\" has another meaning already; give the parameter another name", what, name));
  }
}

bool is_input(const toml::node* node) { return node && node->value_exact<std::string>() == "input"; }

bool names_input(const toml::array& layers) {
  return std::ranges::any_of(layers, [](const toml::node& layer) {
    const toml::table* const table = layer.as_table();
    if (!table) return false;
    for (const char* const key : {"from", "add", "gate", "concat"})
      if (is_input(table->get(key))) return true;
    const toml::array* const values = table->get_as<toml::array>("concat");
    if (values && std::ranges::any_of(*values, [](const toml::node& value) { return is_input(&value); })) return true;
    const toml::array* const group = table->get_as<toml::array>("layers");
    return group && names_input(*group);
  });
}

}  // namespace

const toml::array& layers_of(const toml::table& table, const std::string& where, const std::string& what) {
  const toml::array* const layers = table.get_as<toml::array>("layers");
  if (!layers || layers->empty())
    throw ModelFileError(
        where, table,
        fmt::format("{} needs layers = [ ... ], an array of layers such as {{ conv2d = 64, kernel = 3 }}", what));
  return *layers;
}

ModelDefinitions::ModelDefinitions(const toml::table& file, const std::string& where) {
  require_known_keys(file, where, "a network", {"name", "layers", "defaults", "blocks"});
  defaults_ = read_defaults(file, where);
  const toml::table* const blocks = table_of(file, "blocks", where);
  if (!blocks) return;
  for (const auto& [key, node] : *blocks) {
    const std::string name(key.str()), what = fmt::format("block {}", shortened(name));
    if (!is_model_name(name))
      throw ModelFileError(where, node, fmt::format("{}: its name must have letters, digits, _ . and - only", what));
    if (!node.is_table()) throw ModelFileError(where, node, what + " must be a table");
    const toml::table& block = *node.as_table();
    require_known_keys(block, where, what, {"parameters", "layers"});
    const toml::table* const parameters = table_of(block, "parameters", where);
    if (parameters) require_parameters(*parameters, where, what);
    const toml::array& layers = layers_of(block, where, what);
    blocks_[name] = {.parameters = parameters, .layers = &layers, .reads_input = names_input(layers)};
  }
}

}  // namespace ddp
