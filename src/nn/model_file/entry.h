// One layer of a network file (nn/model_file.h), with typed values of its keys.
//
// All functions throw Error(Exit::model) whose text names the file, the line, the layer and the key.
#pragma once

#include "core/error.h"
#include "core/toml.h"
#include "nn/init_rule.h"
#include "nn/model_file/expression.h"
#include "ops/activation.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {

// An error that names its place in the file.
class ModelFileError : public Error {
 public:
  ModelFileError(const std::string& where, const toml::node& node, const std::string& message)
      : Error(Exit::model, fmt::format("{}, line {}: {}", where, node.source().begin.line, message)) {}
};

// What the texts of a block's layers may name.
struct ModelScope {
  const ModelScope* outer = nullptr;        // of the enclosing block
  const toml::array* layers = nullptr;      // of the block
  std::string block = {};                   // its name; empty: the network
  const toml::table* parameters = nullptr;  // of the block, with their defaults
  Variables variables = {};
  std::map<std::string, Activation::Kind, std::less<>> activations = {};  // parameters that are activations
  std::map<std::string, int, std::less<>> labels = {};                    // values of the network, by label
};

// Whether a layer, a label or a network may have this name: letters, digits, _ . and -, at most 128.
bool is_model_name(std::string_view name);

std::optional<Activation::Kind> find_activation(std::string_view name);

class ModelEntry {
 public:
  // `kind` is the key that says the kind. `defaults` (may be null) has values for the keys that `table` lacks. `title`
  // stands before each message.
  ModelEntry(const std::string& where, const toml::table& table, std::string_view kind, const toml::table* defaults,
             std::string title, const ModelScope& scope);

  const toml::table& table() const { return table_; }
  std::string_view kind() const { return kind_; }
  void rename(std::string title) { title_ = std::move(title); }

  const toml::node* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  Number number(std::string_view key) const;  // the key is there
  int64_t whole(std::string_view key, int64_t least = 1) const;
  int64_t whole_in(std::string_view key, const toml::node& node, int64_t least = 1) const;
  int64_t whole_or(std::string_view key, int64_t otherwise, int64_t least = 1) const;
  float decimal(std::string_view key) const;
  float decimal_or(std::string_view key, float otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;  // of a text or an array of texts
  Activation::Kind activation(std::string_view key) const;
  InitRule init(std::string_view key, const Fans& fans) const;
  std::string name() const;  // with the value of each text in braces
  // The value of the network with this label.
  int value(std::string_view key, const std::string& label) const;
  int value(std::string_view key) const { return value(key, text(key)); }

  bool names_index() const;  // whether the name has a text in braces with the variable index
  std::string label() const;

  void require_true() const;  // the value of the key that says the kind
  void require_keys(const std::vector<std::string_view>& known) const;
  [[noreturn]] void fail_at(std::string_view key, const std::string& message) const;

 private:
  const toml::node& node(std::string_view key) const;  // of a required key
  void require_name(std::string_view key, const std::string& name) const;
  Number number_in(std::string_view key, const toml::node& node) const;
  Number number_in(std::string_view key, const toml::node& node, const Variables& variables) const;

  const std::string& where_;
  const toml::table& table_;
  const std::string_view kind_;
  const toml::table* const defaults_;
  std::string title_;
  const ModelScope& scope_;
};

}  // namespace ddp
