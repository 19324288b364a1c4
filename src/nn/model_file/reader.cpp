#include "core/printable.h"
#include "nn/model_file.h"
#include "nn/model_file/check.h"
#include "nn/model_file/definitions.h"
#include "nn/model_file/entry.h"
#include "nn/model_file/kinds.h"
#include "nn/model_file/sizes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr int kMostNested = 64;            // blocks and groups in one another
constexpr size_t kLongestLayerName = 256;  // with the names of its blocks
constexpr int kMostDotsOfALine = 256;

// toml++ recurses for each dot of a key.
void require_few_dots(std::string_view text, const std::string& where) {
  int line = 1, dots = 0;
  for (const char c : text) {
    if (c == '\n') ++line, dots = 0;
    if (c == '.') ++dots;
    require(dots <= kMostDotsOfALine, Exit::model, "{}, line {}: has more than {} dots; write fewer layers in a line",
            where, line, kMostDotsOfALine);
  }
}

toml::table parsed(const ModelFile& file, const std::string& where) try {
  require(std::ssize(file.text) <= kMostModelBytes, Exit::model, "{}: has {} bytes; a network file may have {}", where,
          file.text.size(), kMostModelBytes);
  require_few_dots(file.text, where);
  return toml::parse(file.text);
} catch (const toml::parse_error& e) {
  fail(Exit::model, "{}, line {}: {}", where, e.source().begin.line, printable(e.description()));
}

std::optional<std::string> network_name_in(const toml::table& file, const std::string& where) {
  const toml::node* const name = file.get("name");
  if (!name) return std::nullopt;
  const auto text = name->value_exact<std::string>();
  if (!text || !is_model_name(*text))
    throw ModelFileError(where, *name, "name must be a text of letters, digits, _ . and -");
  return text;
}

class ModelReader {
 public:
  ModelReader(const ModelFile& file, const std::string& where, ImageShape image, int64_t classes)
      : built_in_(file.built_in),
        where_(printable(where)),
        file_(parsed(file, where_)),
        definitions_(file_, where_),
        classes_(classes),
        sizes_(image),
        net_(network_name_in(file_, where).value_or(printable(file.name)), image) {}

  Network read() {
    ModelScope scope{.layers = &layers_of(file_, where_, "the network")};
    scope.variables["classes"] = classes_;
    scope.labels["input"] = net_.here();
    add_layers(*scope.layers, scope);
    if (texts_.empty()) fail_at(file_, "the network has no layer");
    require_whole_network(net_, classes_, texts_, where_);
    return std::move(net_);
  }

 private:
  [[noreturn]] void fail_at(const toml::node& node, const std::string& message) const {
    throw ModelFileError(where_, node, message);
  }

  void add_layers(const toml::array& layers, ModelScope& scope) {
    if (++nested_ > kMostNested)
      fail_at(layers, fmt::format("more than {} blocks and groups in one another", kMostNested));
    for (const toml::node& layer : layers) {
      if (!layer.is_table()) fail_at(layer, "a layer must be a table, such as { conv2d = 64, kernel = 3 }");
      add_layer(*layer.as_table(), scope);
    }
    --nested_;
  }

  void add_layer(const toml::table& table, ModelScope& scope) {
    require_layers(table, ++entries_);
    set_shape(scope);
    const std::string_view key = kind_of(table);
    const auto kind = std::ranges::find(model_kinds(), key, &ModelKind::key);
    ModelEntry entry(where_, table, key, definitions_.defaults_of(key), title_of_next(key), scope);
    if (table.contains("from")) {
      net_.from(entry.value("from"));
      set_shape(scope);
    }
    if (key == "block")
      add_block(entry, scope);
    else if (key == "layers")
      add_group(entry, scope);
    else
      add_of_kind(*kind, entry);
    if (table.contains("label")) scope.labels[entry.label()] = net_.here();
  }

  // Also counts blocks and groups, which may be empty.
  void require_layers(const toml::table& table, int64_t layers) const {
    if (layers > kMostModelLayers)
      fail_at(table, fmt::format("the network has more than {} layers with all copies, the limit; repeat fewer",
                                 kMostModelLayers));
  }

  // A parameter hides the variable of its name.
  void set_shape(ModelScope& scope) const {
    const ImageShape shape = net_.output();
    const auto set = [&](const char* variable, int64_t extent) {
      if (!scope.parameters || !scope.parameters->contains(variable)) scope.variables[variable] = extent;
    };
    set("height", shape.h);
    set("width", shape.w);
    set("channels", shape.c);
  }

  std::string_view kind_of(const toml::table& table) const {
    if (table.contains("block")) return "block";  // whose parameters may have names of kinds
    std::vector<std::string_view> all, found;
    for (const ModelKind& kind : model_kinds()) all.push_back(kind.key);
    all.insert(all.end(), {"block", "layers"});
    std::ranges::copy_if(all, std::back_inserter(found), [&](std::string_view key) { return table.contains(key); });
    if (found.size() == 1) return found.front();
    const std::string layer = net_.peek_name();
    if (!found.empty())
      fail_at(table, fmt::format("layer {}: has two kinds, {} and {}; write two layers", layer, found[0], found[1]));
    std::vector<std::string> keys;
    for (const auto& [key, node] : table) keys.emplace_back(key.str());
    fail_at(table, fmt::format("layer {}: has no key that says its kind; its keys are: {}; the kinds are: {}", layer,
                               first_names(keys), fmt::join(all, ", ")));
  }

  std::string title_of_next(std::string_view kind) const {
    return fmt::format("layer {} ({})", net_.peek_name(), kind);
  }

  void take_name(ModelEntry& entry) {
    if (!entry.table().contains("name")) return;
    net_.named(entry.name());
    entry.rename(title_of_next(entry.kind()));
  }

  void add_of_kind(const ModelKind& kind, ModelEntry& entry) try {
    std::vector<std::string_view> keys{kind.key};
    keys.insert(keys.end(), kind.options.begin(), kind.options.end());
    keys.insert(keys.end(), {"name", "label", "from"});
    entry.require_keys(keys);
    take_name(entry);
    kind.add(net_, entry);
    require_sound_layers(entry);
  } catch (const ModelFileError&) {
    throw;
  } catch (const Error& error) {
    if (built_in_) throw;
    fail_at(entry.table(), error.what());
  }

  void add_group(ModelEntry& entry, ModelScope& scope) {
    entry.require_keys({"layers", "inline", "name", "label", "from"});
    const bool is_inline = takes_inline(entry);
    const toml::array& layers = layers_of(entry.table(), where_, "a group");
    take_name(entry);
    add_nested(is_inline, layers, scope);
  }

  void add_nested(bool is_inline, const toml::array& layers, ModelScope& scope) {
    const auto add = [&](Network&) { add_layers(layers, scope); };
    if (is_inline)
      add(net_);
    else
      net_.block(add);
  }

  bool takes_inline(const ModelEntry& entry) const {
    const bool is_inline = entry.flag_or("inline", false);
    if (is_inline && entry.has("name")) entry.fail_at("name", "inline = true takes no name; leave one of them out");
    return is_inline;
  }

  void add_block(ModelEntry& entry, ModelScope& scope) {
    const std::string name = entry.text("block");
    const auto found = definitions_.blocks().find(name);
    if (found == definitions_.blocks().end()) fail_unknown_block(entry, name);
    const ModelBlock& block = found->second;
    require_block_keys(entry, block);
    require_no_cycle(entry, name, scope);

    const bool repeats = entry.has("repeat"), is_inline = takes_inline(entry);
    const int64_t copies = entry.whole_or("repeat", 1, 0);
    require_layers(entry.table(), copies_ * copies);
    const int64_t outer_copies = std::exchange(copies_, copies_ * std::max<int64_t>(copies, 1));
    const auto index = scope.variables.find("index");
    const auto outer_index = index == scope.variables.end() ? std::nullopt : std::optional<Number>(index->second);
    const bool names_copies = repeats && entry.has("name") && entry.names_index();
    const auto add_copies = [&](Network&) {
      for (int64_t copy = 0; copy < copies; ++copy) {
        if (repeats) scope.variables["index"] = copy;
        require_layers(entry.table(), ++entries_);
        set_shape(scope);
        if (names_copies) take_name(entry);
        ModelScope inner = scope_of(name, block, entry, scope);
        add_nested(is_inline, *block.layers, inner);
      }
    };
    if (!names_copies) take_name(entry);
    if (repeats && entry.has("name") && !names_copies)
      net_.block(add_copies);
    else
      add_copies(net_);
    copies_ = outer_copies;
    if (outer_index)
      scope.variables["index"] = *outer_index;
    else
      scope.variables.erase("index");
  }

  [[noreturn]] void fail_unknown_block(const ModelEntry& entry, const std::string& name) const {
    std::vector<std::string> known;
    for (const auto& [block, description] : definitions_.blocks()) known.push_back(block);
    entry.fail_at("block", fmt::format("block = \"{}\" is not in this file; its blocks are: {}", shortened(name),
                                       known.empty() ? "none" : first_names(known)));
  }

  static void require_block_keys(const ModelEntry& entry, const ModelBlock& block) {
    std::vector<std::string_view> keys{"block", "repeat", "inline", "name", "label", "from"};
    if (block.parameters)
      for (const auto& [parameter, value] : *block.parameters) keys.push_back(parameter.str());
    entry.require_keys(keys);
  }

  static void require_no_cycle(const ModelEntry& entry, const std::string& name, const ModelScope& scope) {
    const ModelScope* same = &scope;
    while (same && same->block != name) same = same->outer;
    if (!same) return;
    std::string chain = name;
    for (const ModelScope* inner = &scope; inner != same->outer; inner = inner->outer)
      chain = fmt::format("{} > {}", inner->block, chain);
    entry.fail_at("block", fmt::format("the block {} contains itself: {}", name, chain));
  }

  // The values of a block's parameters, its input, and what else its layers may name.
  ModelScope scope_of(const std::string& name, const ModelBlock& block, const ModelEntry& entry,
                      const ModelScope& outer) {
    ModelScope scope{.outer = &outer, .layers = block.layers, .block = name};
    if (block.reads_input) scope.labels["input"] = net_.here();
    for (const char* const variable : {"classes", "index"})
      if (const auto value = outer.variables.find(variable); value != outer.variables.end())
        scope.variables.insert(*value);
    if (!block.parameters) return scope;
    ModelScope plain{.variables = scope.variables};
    set_shape(plain);
    scope.parameters = block.parameters;
    const ModelEntry defaults(where_, *block.parameters, "parameters", nullptr, "block " + name, plain);
    for (const auto& [key, value] : *block.parameters) {
      const std::string parameter(key.str());
      const auto text = value.value_exact<std::string>();
      const bool given = entry.table().contains(parameter);
      if (text == "required" && !given)
        entry.fail_at("block", fmt::format("block {} needs the parameter \"{}\"", name, parameter));
      const ModelEntry& from = given ? entry : defaults;
      if (text && find_activation(*text))
        scope.activations[parameter] = from.activation(parameter);
      else
        scope.variables[parameter] = from.number(parameter);
    }
    return scope;
  }

  // Of the layers that `entry` has added.
  void require_sound_layers(const ModelEntry& entry) {
    require_layers(entry.table(), std::ssize(net_.layers()));
    const int line = static_cast<int>(entry.table().source().begin.line);
    for (size_t i = texts_.size(); i < net_.layers().size(); ++i) {
      const LayerSpec& layer = net_.layers()[i];
      require(layer.name.size() <= kLongestLayerName, Exit::model, "layer {}: its name has more than {} characters",
              shortened(layer.name), kLongestLayerName);
      sizes_.add(layer);
      const auto [first, is_new] = names_.emplace(layer.name, line);
      require(is_new, Exit::model, "two layers have the name {}; the first one is in line {}", layer.name,
              first->second);
      texts_.push_back(&entry.table());
    }
  }

  const bool built_in_;
  const std::string where_;
  const toml::table file_;
  const ModelDefinitions definitions_;
  const int64_t classes_;
  ModelSizes sizes_;
  Network net_;
  int nested_ = 0;
  int64_t entries_ = 0;                    // layers, blocks and groups up to now, with all copies
  int64_t copies_ = 1;                     // of the current block
  std::map<std::string, int> names_;       // of layers, with their lines
  std::vector<const toml::table*> texts_;  // by layer of the network: its text
};

}  // namespace

std::optional<std::string> network_name_in(const ModelFile& file, const std::string& where) {
  const toml::table table = parsed(file, where);
  return network_name_in(table, where);
}

bool begins_with_embedding(const ModelFile& file, const std::string& where) {
  const toml::table table = parsed(file, where);
  const ModelDefinitions definitions(table, where);
  const toml::array* layers = table.get_as<toml::array>("layers");
  for (int nested = 0; nested < kMostNested && layers && !layers->empty(); ++nested) {
    const toml::table* const first = layers->front().as_table();
    if (!first) return false;
    if (const auto name = first->get_as<std::string>("block")) {
      const auto block = definitions.blocks().find(name->get());
      layers = block == definitions.blocks().end() ? nullptr : block->second.layers;
    } else if (first->contains("layers")) {
      layers = first->get_as<toml::array>("layers");
    } else {
      return first->contains("embedding");
    }
  }
  return false;
}

Network make_model(const ModelFile& file, const std::string& where, ImageShape image, int64_t classes) {
  return ModelReader(file, where, image, classes).read();
}

}  // namespace ddp
