#include "nn/freeze.h"

#include "core/error.h"
#include "core/printable.h"
#include "nn/parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddp {
namespace {

bool is_below(const std::string& name, const std::string& prefix) {
  return name == prefix || name.starts_with(prefix + ".");
}

// Such as "conv1, bn1, layer1, fc".
std::string top_names(const Network& network) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : network.layers()) {
    const std::string top = layer.name.substr(0, layer.name.find('.'));
    const auto has_name = [&](const Parameter& p) { return is_below(p.name, top); };
    if (std::ranges::count(names, top) == 0 && std::ranges::any_of(parameters_of(network), has_name))
      names.push_back(top);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Network freeze(const Network& network, std::span<const std::string> prefixes) {
  const std::vector<Parameter> parameters = parameters_of(network);
  std::vector<LayerSpec> layers = network.layers();
  for (const std::string& prefix : prefixes) {
    bool found = false;
    for (const Parameter& p : parameters) {
      if (!is_below(p.name, prefix)) continue;
      found = true;
      (is_weight(p.role) ? layers[p.layer].trains_weight : layers[p.layer].trains_bias) = false;
    }
    require(found, Exit::usage, "--freeze: {} has no parameter \"{}\", nor one below it; its parts are {}",
            network.name(), shortened(prefix), top_names(network));
  }
  for (LayerSpec& layer : layers)
    if (layer.tied != LayerSpec::kNone) layer.trains_weight = layers[static_cast<size_t>(layer.tied)].trains_weight;
  // A batch norm that normalises by its running statistics does not subtract the mean of the batch. So a bias before it
  // has a gradient, which the bias's own layer computes.
  for (const BatchNormState& norm : batch_norm_states_of({network, layers}))
    for (const int before : {layers[norm.layer].from, layers[norm.layer].skip})
      if (!norm.trained && before >= 0) layers[before].bias_gradient = LayerSpec::BiasGradient::layer;
  Network frozen(network, std::move(layers));
  require(!trained_of(parameters_of(frozen)).empty(), Exit::usage,
          "--freeze: all {} parameters of {} are frozen; leave out a part that is to be trained", parameters.size(),
          network.name());
  return frozen;
}

}  // namespace ddp
