#include "app/inputs/model_source.h"

#include "app/inputs/model_info.h"
#include "app/inputs/token_sizes.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "ddp/hash.h"
#include "nn/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace ddp {

bool is_model_path(const std::string& model) { return model.ends_with(".toml"); }

ModelFile read_model_source(const std::string& model) {
  if (!is_model_path(model)) return {.name = model, .text = "", .built_in = true};
  const std::filesystem::path path = model;
  const std::string shown = printable(path.native());
  ModelFile file{.name = printable(path.stem().native()), .text = read_whole_file(path, kMostModelBytes)};
  require(!file.text.empty(), Exit::model, "{}: is empty; it must describe a network", shown);
  require(stored_name(file.text) == file.text, Exit::model, "{}: is no text in UTF-8", shown);
  if (auto name = network_name_in(file, shown)) file.name = std::move(*name);
  require(!file.name.empty() && file.name.size() <= kLongestModelName, Exit::model,
          "{}: the name of the network has {} characters, and 1 to {} are possible; write name = \"...\" in the file",
          shown, file.name.size(), kLongestModelName);
  return file;
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

bool reads_tokens(const ModelFile& source, const std::string& where) {
  if (!source.built_in) return begins_with_embedding(source, where);
  const auto models = built_in_models();
  const auto found = std::ranges::find(models, source.name, &ModelFile::name);
  return found != models.end() && begins_with_embedding(*found, where);
}

TokenInput complete(TokenInput input, const ModelFile& source, const std::string& where) {
  if (input.vocabulary == 0) input.vocabulary = kGpt2Vocabulary;
  if (input.length > 0) return input;
  const Network network = network_of(source, where, {1, 1, 1}, input.vocabulary);
  for (const LayerSpec& layer : network.layers())
    if (layer.kind == LayerSpec::Kind::position_embedding && layer.rows > 0 &&
        (input.length == 0 || layer.rows < input.length))
      input.length = layer.rows;
  if (input.length == 0) input.length = kSequenceLength;
  return input;
}

}  // namespace ddp
