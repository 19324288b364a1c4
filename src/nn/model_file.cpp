#include "nn/model_file.h"

#include "core/printable.h"
#include "nn/model_entry.h"
#include "nn/model_kinds.h"
#include "nn/model_sizes.h"
#include "nn/parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr int kMostNested = 64;            // blocks and groups in one another
constexpr size_t kLongestLayerName = 256;  // with the names of its blocks
constexpr size_t kMostBlockParameters = 64;
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

struct ModelBlock {
  const toml::table* parameters;  // null: none
  const toml::array* layers;
  bool reads_input;  // by its label
};

bool is_input(const toml::node* node) { return node && node->value_exact<std::string>() == "input"; }

// Whether a layer of these or of their groups reads "input".
bool reads_input(const toml::array& layers) {
  return std::ranges::any_of(layers, [](const toml::node& layer) {
    const toml::table* const table = layer.as_table();
    if (!table) return false;
    const toml::array *const values = table->get_as<toml::array>("concat"), *const group =
                                                                                table->get_as<toml::array>("layers");
    return is_input(table->get("from")) || is_input(table->get("add")) || is_input(table->get("gate")) ||
           is_input(table->get("concat")) ||
           (values && std::ranges::any_of(*values, [](const toml::node& value) { return is_input(&value); })) ||
           (group && reads_input(*group));
  });
}

class ModelReader {
 public:
  ModelReader(const ModelFile& file, const std::string& where, ImageShape image, int64_t classes)
      : built_in_(file.built_in),
        where_(where),
        file_(parsed(file, where)),
        classes_(classes),
        sizes_(image),
        net_(name_of_network(file), image) {}

  Network read() {
    require_keys(file_, "a network", {"name", "layers", "defaults", "blocks"});
    read_defaults();
    read_blocks();
    ModelScope scope{.layers = &layers_of(file_, file_, "the network")};
    scope.variables["classes"] = classes_;
    scope.labels["input"] = net_.here();
    add_layers(*scope.layers, scope);
    require_whole_network();
    return std::move(net_);
  }

 private:
  [[noreturn]] void fail_at(const toml::node& node, const std::string& message) const {
    throw ModelFileError(where_, node, message);
  }

  std::string name_of_network(const ModelFile& file) const {
    const toml::node* const name = file_.get("name");
    if (!name) return printable(file.name);
    const auto text = name->value_exact<std::string>();
    if (!text || !is_model_name(*text)) fail_at(*name, "name must be a text of letters, digits, _ . and -");
    return *text;
  }

  void require_keys(const toml::table& table, const std::string& what, const std::vector<std::string_view>& known) {
    for (const auto& [key, node] : table)
      if (std::ranges::find(known, key.str()) == known.end())
        fail_at(node, fmt::format("\"{}\" is no key of {}; the keys are: {}", shortened(key.str()), what,
                                  fmt::join(known, ", ")));
  }

  // `table`: empty if the key is not there.
  const toml::table* table_of(const toml::table& parent, const char* key) {
    const toml::node* const node = parent.get(key);
    if (node && !node->is_table()) fail_at(*node, fmt::format("{} must be a table", key));
    return node ? node->as_table() : nullptr;
  }

  const toml::array& layers_of(const toml::table& table, const toml::node& place, const std::string& what) {
    const toml::array* const layers = table.get_as<toml::array>("layers");
    if (!layers || layers->empty())
      fail_at(place,
              fmt::format("{} needs layers = [ ... ], an array of layers such as {{ conv2d = 64, kernel = 3 }}", what));
    return *layers;
  }

  void read_defaults() {
    defaults_ = table_of(file_, "defaults");
    if (!defaults_) return;
    std::vector<std::string_view> kinds;
    for (const ModelKind& kind : model_kinds())
      if (!kind.options.empty()) kinds.push_back(kind.key);
    require_keys(*defaults_, "[defaults]", kinds);
    for (const ModelKind& kind : model_kinds())
      if (const toml::table* const defaults = table_of(*defaults_, std::string(kind.key).c_str()))
        require_keys(*defaults, fmt::format("[defaults.{}]", kind.key), kind.options);
  }

  void read_blocks() {
    const toml::table* const blocks = table_of(file_, "blocks");
    if (!blocks) return;
    for (const auto& [key, node] : *blocks) {
      const std::string name(key.str()), what = fmt::format("block {}", shortened(name));
      if (!is_model_name(name)) fail_at(node, fmt::format("{}: its name may have letters, digits, _ . and -", what));
      const toml::table* const block = node.as_table();
      if (!block) fail_at(node, fmt::format("{} must be a table with layers = [ ... ]", what));
      require_keys(*block, what, {"parameters", "layers"});
      const toml::table* const parameters = table_of(*block, "parameters");
      if (parameters) require_parameters(*parameters, what);
      const toml::array& layers = layers_of(*block, node, what);
      blocks_[name] = {parameters, &layers, reads_input(layers)};
    }
  }

  void require_parameters(const toml::table& parameters, const std::string& what) {
    static const std::set<std::string_view> kTaken = {"block", "repeat", "inline",  "name",
                                                      "label", "from",   "classes", "index"};
    for (const auto& [key, node] : parameters) {
      const std::string_view name = key.str();
      const bool starts = !name.empty() && !(name.front() >= '0' && name.front() <= '9');
      if (!starts || !is_model_name(name) || name.find_first_of(".-") != std::string_view::npos)
        fail_at(node, fmt::format("{}: the name of the parameter \"{}\" must have letters, digits and _", what,
                                  shortened(name)));
      if (kTaken.contains(name))
        fail_at(node, fmt::format("{}: the parameter \"{}\" has a name with another meaning in layers; write another",
                                  what, name));
    }
    if (parameters.size() > kMostBlockParameters)
      fail_at(parameters, fmt::format("{} has more than {} parameters", what, kMostBlockParameters));
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
    const toml::table* const defaults = defaults_ ? defaults_->get_as<toml::table>(key) : nullptr;
    ModelEntry entry(where_, table, key, defaults, net_.peek_name(), scope);
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

  void take_name(ModelEntry& entry) {
    if (!entry.table().contains("name")) return;
    net_.named(entry.name());
    entry.rename(net_.peek_name());
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
    const toml::array& layers = layers_of(entry.table(), entry.table(), "a group");
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
    const auto found = blocks_.find(name);
    if (found == blocks_.end()) fail_unknown_block(entry, name);
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
    for (const auto& [block, description] : blocks_) known.push_back(block);
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
    std::string chain = name;
    for (const ModelScope* outer = &scope; outer; outer = outer->outer) {
      chain = fmt::format("{} > {}", outer->block, chain);
      if (outer->block == name) entry.fail_at("block", fmt::format("the block {} contains itself: {}", name, chain));
    }
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
    const int line = static_cast<int>(entry.table().source().begin.line);
    for (size_t i = lines_.size(); i < net_.layers().size(); ++i) {
      const LayerSpec& layer = net_.layers()[i];
      require(layer.name.size() <= kLongestLayerName, Exit::model, "layer {}: its name has more than {} characters",
              shortened(layer.name), kLongestLayerName);
      sizes_.add(layer);
      const auto [first, is_new] = names_.emplace(layer.name, line);
      require(is_new, Exit::model, "two layers have the name {}; the first one is in line {}", layer.name,
              first->second);
      lines_.push_back(&entry.table());
    }
  }

  // Each value has a reader, each tensor a name of its own, and the end is the logits.
  void require_whole_network() {
    const std::vector<LayerSpec>& layers = net_.layers();
    if (layers.empty()) fail_at(file_, "the network has no layer");
    std::vector<bool> is_read(layers.size());
    for (const LayerSpec& layer : layers)
      for (const int value : {layer.from, layer.skip})
        if (value >= 0) is_read[static_cast<size_t>(value)] = true;
    for (size_t i = 0; i + 1 < layers.size(); ++i)
      if (!is_read[i])
        fail_at(*lines_[i],
                fmt::format("layer {}: no layer reads its output; remove it, or give it a label that a later "
                            "layer reads",
                            layers[i].name));
    const ImageShape out = net_.output();
    if (out != ImageShape{1, 1, classes_})
      fail_at(*lines_.back(), fmt::format("layer {} is the last one and gives {}x{}x{}, but the data have {} classes; "
                                          "end with {{ linear = \"classes\" }} on one position",
                                          layers.back().name, out.h, out.w, out.c, classes_));

    const std::vector<Parameter> parameters = parameters_of(net_);
    if (parameters.empty()) fail_at(file_, "the network has no parameters to train");
    std::set<std::string> tensors;
    const auto require_new = [&](const std::string& tensor, int layer) {
      if (!tensors.insert(tensor).second)
        fail_at(*lines_[static_cast<size_t>(layer)],
                fmt::format("layer {}: another layer has a tensor of the name {} too; name the layer otherwise",
                            layers[static_cast<size_t>(layer)].name, tensor));
    };
    for (const Parameter& parameter : parameters) require_new(parameter.name, parameter.layer);
    for (const BatchNormState& norm : batch_norm_states_of(net_))
      for (const char* const tensor : {".running_mean", ".running_var", ".num_batches_tracked"})
        require_new(norm.layer_name + tensor, norm.layer);
  }

  const bool built_in_;
  const std::string& where_;
  const toml::table file_;
  const int64_t classes_;
  ModelSizes sizes_;
  Network net_;
  const toml::table* defaults_ = nullptr;
  std::map<std::string, ModelBlock, std::less<>> blocks_;
  int nested_ = 0;
  int64_t entries_ = 0;                    // layers, blocks and groups up to now, with all copies
  int64_t copies_ = 1;                     // of the current block
  std::map<std::string, int> names_;       // of layers, with their lines
  std::vector<const toml::table*> lines_;  // by layer of the network: its text
};

}  // namespace

Network make_model(const ModelFile& file, const std::string& where, ImageShape image, int64_t classes) {
  return ModelReader(file, where, image, classes).read();
}

}  // namespace ddp
