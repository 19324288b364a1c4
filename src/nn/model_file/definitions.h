// What a network file (nn/model_file.h) defines beside its layers: the options of all layers of a kind, and blocks.
//
// Errors are ModelFileErrors.
#pragma once

#include "nn/model_file/entry.h"

#include <map>
#include <string>
#include <string_view>

namespace ddp {

struct ModelBlock {
  const toml::table* parameters = nullptr;  // with their defaults; null: none
  const toml::array* layers = nullptr;
  bool reads_input = false;  // whether a layer, or one of a group, names "input"
};

class ModelDefinitions {
 public:
  // Keeps `file`. Also checks the keys of the file itself.
  ModelDefinitions(const toml::table& file, const std::string& where);

  const toml::table* defaults_of(std::string_view kind) const {
    return defaults_ ? defaults_->get_as<toml::table>(kind) : nullptr;
  }
  const std::map<std::string, ModelBlock, std::less<>>& blocks() const { return blocks_; }

 private:
  const toml::table* defaults_ = nullptr;
  std::map<std::string, ModelBlock, std::less<>> blocks_;
};

// The array `layers` of a table, which is `what` in messages.
const toml::array& layers_of(const toml::table& table, const std::string& where, const std::string& what);

}  // namespace ddp
