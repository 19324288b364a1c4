#include "nn/model_file/entry.h"

#include "core/printable.h"
#include "nn/network.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kMostWhole = int64_t{1} << 31;

constexpr size_t kLongestName = 128;

constexpr std::string_view kNameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

std::string text_of_node(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return fmt::format("\"{}\"", shortened(*text));
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto whole = node.value_exact<int64_t>()) return fmt::format("{}", *whole);
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);
  return node.is_table() ? "a table" : node.is_array() ? "an array" : "a date or a time";
}

std::string names_of_activations() {
  std::string names;
  for (int kind = 1; kind <= static_cast<int>(Activation::Kind::tanh); ++kind)
    names += std::string(kind > 1 ? ", " : "") + name_of(static_cast<Activation::Kind>(kind));
  return names;
}

// The line of a label in these layers and their groups; 0: there is none.
int64_t line_of_label(const toml::array& layers, std::string_view label) {
  for (const toml::node& layer : layers) {
    const toml::table* const table = layer.as_table();
    if (!table) continue;
    if (const auto text = (*table)["label"].value_exact<std::string>(); text && *text == label)
      return layer.source().begin.line;
    if (const toml::array* const group = (*table)["layers"].as_array())
      if (const int64_t line = line_of_label(*group, label)) return line;
  }
  return 0;
}

}  // namespace

bool is_model_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         name.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

std::optional<Activation::Kind> find_activation(std::string_view name) {
  for (int kind = 1; kind <= static_cast<int>(Activation::Kind::tanh); ++kind)
    if (name == name_of(static_cast<Activation::Kind>(kind))) return static_cast<Activation::Kind>(kind);
  return std::nullopt;
}

ModelEntry::ModelEntry(const std::string& where, const toml::table& table, std::string_view kind,
                       const toml::table* defaults, std::string title, const ModelScope& scope)
    : where_(where), table_(table), kind_(kind), defaults_(defaults), title_(std::move(title)), scope_(scope) {}

const toml::node* ModelEntry::find(std::string_view key) const {
  const toml::node* const own = table_.get(key);
  return own || !defaults_ ? own : defaults_->get(key);
}

void ModelEntry::fail_at(std::string_view key, const std::string& message) const {
  const toml::node* const node = find(key);
  throw ModelFileError(where_, node ? *node : table_, fmt::format("{}: {}", title_, message));
}

const toml::node& ModelEntry::node(std::string_view key) const {
  const toml::node* const node = find(key);
  if (!node) fail_at(key, fmt::format("needs the key \"{}\"", key));
  return *node;
}

Number ModelEntry::number_in(std::string_view key, const toml::node& node) const {
  return number_in(key, node, scope_.variables);
}

Number ModelEntry::number_in(std::string_view key, const toml::node& node, const Variables& variables) const {
  if (const auto whole = node.value_exact<int64_t>()) return *whole;
  if (const auto decimal = node.value_exact<double>()) {
    if (!std::isfinite(*decimal)) fail_at(key, fmt::format("{} = {} must be finite", key, *decimal));
    return *decimal;
  }
  const auto text = node.value_exact<std::string>();
  if (!text)
    fail_at(key, fmt::format("{} = {} must be a number, or a text that computes one", key, text_of_node(node)));
  try {
    return evaluate(*text, variables);
  } catch (const Error& error) {
    fail_at(key, fmt::format("{} = {}: {}", key, text_of_node(node), error.what()));
  }
}

Number ModelEntry::number(std::string_view key) const { return number_in(key, node(key)); }

int64_t ModelEntry::whole_in(std::string_view key, const toml::node& node, int64_t least) const {
  const Number number = number_in(key, node);
  const std::string value = text_of_node(node);
  const auto* const decimal = std::get_if<double>(&number);
  const bool is_whole = !decimal || (std::trunc(*decimal) == *decimal && std::abs(*decimal) <= kMostWhole);
  const int64_t whole = !is_whole ? 0 : decimal ? static_cast<int64_t>(*decimal) : std::get<int64_t>(number);
  if (!is_whole || whole < least || whole > kMostWhole)
    fail_at(key, fmt::format("{} = {} must be a whole number from {} to {}{}", key, value, least, kMostWhole,
                             node.is_string() ? ", but is " + number_text(number) : ""));
  return whole;
}

int64_t ModelEntry::whole(std::string_view key, int64_t least) const { return whole_in(key, node(key), least); }

int64_t ModelEntry::whole_or(std::string_view key, int64_t otherwise, int64_t least) const {
  return has(key) ? whole(key, least) : otherwise;
}

float ModelEntry::decimal(std::string_view key) const {
  const Number number = this->number(key);
  const auto value = std::visit([](auto v) { return static_cast<float>(v); }, number);
  if (!std::isfinite(value)) fail_at(key, fmt::format("{} = {} must be finite", key, number_text(number)));
  return value;
}

float ModelEntry::decimal_or(std::string_view key, float otherwise) const {
  return has(key) ? decimal(key) : otherwise;
}

bool ModelEntry::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const auto flag = node(key).value_exact<bool>();
  if (!flag) fail_at(key, fmt::format("{} = {} must be true or false", key, text_of_node(node(key))));
  return *flag;
}

void ModelEntry::require_true() const {
  if (node(kind_).value_exact<bool>() != true)
    fail_at(kind_,
            fmt::format("{} = {} must be true; for no such layer, leave it out", kind_, text_of_node(node(kind_))));
}

std::string ModelEntry::text(std::string_view key) const {
  const auto text = node(key).value_exact<std::string>();
  if (!text) fail_at(key, fmt::format("{} = {} must be a text", key, text_of_node(node(key))));
  return *text;
}

std::vector<std::string> ModelEntry::texts(std::string_view key) const {
  const toml::array* const array = node(key).as_array();
  if (!array) return {text(key)};
  std::vector<std::string> texts;
  for (const toml::node& entry : *array) {
    const auto text = entry.value_exact<std::string>();
    if (!text)
      fail_at(key, fmt::format("{} must be a text or an array of texts, but has {}", key, text_of_node(entry)));
    texts.push_back(*text);
  }
  if (texts.empty()) fail_at(key, fmt::format("{} is an empty array", key));
  return texts;
}

Activation::Kind ModelEntry::activation(std::string_view key) const {
  const std::string text = this->text(key);
  if (const auto parameter = scope_.activations.find(text); parameter != scope_.activations.end())
    return parameter->second;
  const auto kind = find_activation(text);
  if (!kind)
    fail_at(key, fmt::format("{} = \"{}\" is no activation; the activations are: {}", key, shortened(text),
                             names_of_activations()));
  return *kind;
}

InitRule ModelEntry::init(std::string_view key, const Fans& fans) const {
  if (!has(key)) return {};
  const toml::node& node = this->node(key);
  if (const auto name = node.value_exact<std::string>()) {
    if (const auto rule = init_rule(*name, fans)) return *rule;
    fail_at(key, fmt::format("{} = \"{}\" is no initial value; the names are: {}", key, shortened(*name),
                             init_rule_names()));
  }
  constexpr std::pair<std::string_view, InitRule::Kind> kKinds[] = {{"constant", InitRule::Kind::constant},
                                                                    {"normal", InitRule::Kind::normal},
                                                                    {"trunc_normal", InitRule::Kind::trunc_normal},
                                                                    {"uniform", InitRule::Kind::uniform}};
  const toml::table* const table = node.as_table();
  const auto kind = std::ranges::find_if(kKinds, [&](const auto& k) { return table && table->contains(k.first); });
  if (kind == std::end(kKinds) || table->size() != 1)
    fail_at(key, fmt::format("{} must be a name ({}), or one of {{ normal = 0.02 }}, {{ trunc_normal = 0.02 }}, "
                             "{{ uniform = 0.1 }} and {{ constant = 0 }}",
                             key, init_rule_names()));
  Variables variables = scope_.variables;
  variables["fan_in"] = fans.in;
  variables["fan_out"] = fans.out;
  const Number number = number_in(key, *table->get(kind->first), variables);
  const double value = std::visit([](auto v) { return static_cast<double>(v); }, number);
  if (!(std::abs(value) <= std::numeric_limits<float>::max()))
    fail_at(key, fmt::format("{}: {} = {} is no number of single precision", key, kind->first, value));
  if (kind->second != InitRule::Kind::constant && !(value > 0))
    fail_at(key, fmt::format("{}: {} = {} must be greater than 0", key, kind->first, value));
  return {kind->second, value};
}

std::string ModelEntry::name() const {
  const std::string_view key = "name";
  const std::string text = this->text(key);
  if (text.size() > kLongestExpression)
    fail_at(key, fmt::format("{} = \"{}\" is longer than {} bytes", key, shortened(text), kLongestExpression));
  std::string name;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at), close = text.find('}', open);
    name += text.substr(at, open - at);
    if (open == std::string::npos) break;
    if (close == std::string::npos) fail_at(key, fmt::format("{} = \"{}\" lacks a }}", key, shortened(text)));
    const std::string inner = text.substr(open + 1, close - open - 1);
    const Number number = number_in(key, toml::value<std::string>(inner));
    if (!std::holds_alternative<int64_t>(number))
      fail_at(key, fmt::format("{} = \"{}\": {{{}}} must be a whole number, but is {}", key, shortened(text),
                               shortened(inner), number_text(number)));
    name += number_text(number);
    at = close + 1;
  }
  require_name(key, name);
  return name;
}

bool ModelEntry::names_index() const {
  const std::string text = this->text("name");
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  constexpr std::string_view kIndex = "index";
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const std::string inside = text.substr(open + 1, text.find('}', open) - open - 1);
    for (size_t at = inside.find(kIndex); at != std::string::npos; at = inside.find(kIndex, at + 1)) {
      const size_t end = at + kIndex.size();
      if ((at == 0 || !in_word(inside[at - 1])) && (end == inside.size() || !in_word(inside[end]))) return true;
    }
  }
  return false;
}

std::string ModelEntry::label() const {
  const std::string label = text("label");
  require_name("label", label);
  if (label == "input") fail_at("label", "label = \"input\" has a meaning already: the input of the block");
  if (scope_.labels.contains(label))
    fail_at("label", fmt::format("label = \"{}\" is the label of an earlier layer too; write another one", label));
  return label;
}

void ModelEntry::require_name(std::string_view key, const std::string& name) const {
  if (!is_model_name(name))
    fail_at(key, fmt::format("{} = \"{}\" must have 1 to {} letters, digits, _ . or -, and no other characters", key,
                             shortened(name), kLongestName));
}

int ModelEntry::value(std::string_view key, const std::string& label) const {
  for (const ModelScope* scope = &scope_; scope; scope = label == "input" ? nullptr : scope->outer)
    if (const auto found = scope->labels.find(label); found != scope->labels.end()) return found->second;
  const std::string what = fmt::format("{} = \"{}\"", key, shortened(label));
  for (const ModelScope* scope = &scope_; scope; scope = scope->outer)
    if (const int64_t line = line_of_label(*scope->layers, label)) {
      const bool own = table_["label"].value_exact<std::string>() == label;
      fail_at(key, fmt::format("{} reads {}, in line {}, so the graph has a cycle; read the label of an earlier layer",
                               what, own ? "the layer itself" : "a later layer", line));
    }
  std::vector<std::string> known;
  for (const ModelScope* scope = &scope_; scope; scope = scope->outer)
    for (const auto& [name, value] : scope->labels)
      if (name != "input") known.push_back(name);
  fail_at(key, fmt::format("{} is no label of an earlier layer; the labels here are: input{}{}", what,
                           known.empty() ? "" : ", ", first_names(known)));
}

void ModelEntry::require_keys(const std::vector<std::string_view>& known) const {
  for (const auto& [key, node] : table_)
    if (std::ranges::find(known, key.str()) == known.end())
      fail_at(key.str(), fmt::format("\"{}\" is no key of this layer; its keys are: {}", shortened(key.str()),
                                     fmt::join(known, ", ")));
}

}  // namespace ddp
