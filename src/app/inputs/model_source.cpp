#include "app/inputs/model_source.h"

#include "core/printable.h"
#include "core/read_file.h"
#include "ddp/hash.h"
#include "nn/models.h"

#include <fmt/format.h>

#include <filesystem>

namespace ddp {

bool is_model_path(const std::string& model) { return model.ends_with(".toml"); }

ModelFile read_model_source(const std::string& model) {
  if (!is_model_path(model)) return {.name = model, .text = "", .built_in = true};
  const std::filesystem::path path = model;
  return {.name = printable(path.stem().native()), .text = read_whole_file(path, kMostModelBytes)};
}

std::string identity_of(const ModelFile& source) {
  return source.built_in ? source.name : fmt::format("a file of hash {:016x}", hash_of(source.text));
}

std::string describe(const ModelFile& source) {
  return source.built_in ? source.name : fmt::format("{} from {}", source.name, identity_of(source));
}

Network network_of(const ModelFile& source, const std::string& where, ImageShape image, int64_t classes) {
  return source.built_in ? make_model(source.name, image, classes) : make_model(source, where, image, classes);
}

}  // namespace ddp
