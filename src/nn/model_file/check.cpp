#include "nn/model_file/check.h"

#include "nn/model_file/entry.h"
#include "nn/parameters.h"

#include <set>
#include <vector>

namespace ddp {

void require_whole_network(const Network& network, int64_t classes, std::span<const toml::table* const> texts,
                           const std::string& where) {
  const std::vector<LayerSpec>& layers = network.layers();
  const auto fail_at = [&](size_t layer, const std::string& message) {
    throw ModelFileError(where, *texts[layer], fmt::format("layer {}: {}", layers[layer].name, message));
  };
  if (const int unread = network.unread_layer(); unread >= 0)
    fail_at(static_cast<size_t>(unread),
            "no layer reads its output; remove it, or give it a label that a later layer reads");
  if (!network.ends_in_last_layer()) fail_at(layers.size() - 1, "it is the last one, and must give the output");
  const ImageShape out = network.output();
  const bool tokens = network.reads_tokens();
  for (size_t i = 1; tokens && i < layers.size(); ++i)
    if (layers[i].from == LayerSpec::kImage || layers[i].skip == LayerSpec::kImage)
      fail_at(i, "reads the tokens of the data, which only the embedding can; let it read the label of another layer");
  if (tokens && layers.front().rows != classes)
    fail_at(0, fmt::format("its table has {} rows, but the vocabulary has {} tokens; write rows = \"classes\"",
                           layers.front().rows, classes));
  if (out != ImageShape{tokens ? network.input().h : 1, 1, classes})
    fail_at(layers.size() - 1,
            fmt::format("it is the last one and gives {}x{}x{}, but the data have {} classes; end with {{ linear = "
                        "\"classes\" }} on {}",
                        out.h, out.w, out.c, classes, tokens ? "each token" : "one position"));

  std::set<std::string> tensors;
  const auto require_new = [&](const std::string& tensor, int layer) {
    if (!tensors.insert(tensor).second)
      fail_at(static_cast<size_t>(layer),
              fmt::format("another layer has a tensor of the name {} too; give this layer another name", tensor));
  };
  const std::vector<Parameter> parameters = parameters_of(network);
  if (parameters.empty()) fail_at(layers.size() - 1, "no layer has parameters, so there is nothing to train");
  for (const Parameter& parameter : parameters) require_new(parameter.name, parameter.layer);
  for (const BatchNormState& norm : batch_norm_states_of(network))
    for (const char* const tensor : {".running_mean", ".running_var", ".num_batches_tracked"})
      require_new(norm.layer_name + tensor, norm.layer);
}

}  // namespace ddp
