#include "app/commands/export/exported_network.h"

#include "core/error.h"
#include "core/printable.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace ddp {
namespace {

// The convolution or linear layer whose output the batch norm `norm` alone reads; LayerSpec::kNone: there is none.
int foldable_into(const std::vector<LayerSpec>& layers, int norm) {
  const int from = layers[norm].from;
  if (from < 0) return LayerSpec::kNone;
  const LayerSpec::Kind kind = layers[from].kind;
  const auto readers = std::ranges::count_if(layers, [&](const LayerSpec& l) { return l.from == from; }) +
                       std::ranges::count_if(layers, [&](const LayerSpec& l) { return l.skip == from; });
  const bool rows = !layers[from].transposed && layers[from].tied == LayerSpec::kNone;  // a row for each output
  const bool fits = kind == LayerSpec::Kind::conv2d || (kind == LayerSpec::Kind::linear && rows);
  return fits && readers == 1 ? from : LayerSpec::kNone;
}

// Puts the batch norm into the tensors of the layer `before`. Returns false, and changes nothing, where a result is no
// finite f32.
bool fold(ExportedNetwork& exported, const std::string& before, const LayerSpec& norm) {
  const auto of_norm = [&](const char* part) { return std::span(exported.find(norm.name + part)->values); };
  const auto scale = of_norm(".weight"), shift = of_norm(".bias"), mean = of_norm(".running_mean"),
             variance = of_norm(".running_var");
  NamedTensor weight = *exported.find(before + ".weight");
  const size_t channels = scale.size(), row = weight.values.size() / channels;
  const NamedTensor* const old_bias = exported.find(before + ".bias");
  NamedTensor bias{before + ".bias", {static_cast<int64_t>(channels)}, std::vector<float>(channels)};
  if (old_bias) bias = *old_bias;

  bool finite = true;
  const auto set = [&](float& to, double value) {
    const bool fits = std::abs(value) <= std::numeric_limits<float>::max();  // not of NaN
    finite = finite && fits;
    if (fits) to = static_cast<float>(value);
  };
  for (size_t c = 0; c < channels; ++c) {
    const double factor = scale[c] / std::sqrt(double{variance[c]} + double{norm.norm.epsilon});
    for (float& w : std::span(weight.values).subspan(c * row, row)) set(w, w * factor);
    set(bias.values[c], (double{bias.values[c]} - mean[c]) * factor + shift[c]);
  }
  if (!finite) return false;

  std::erase_if(exported.tensors, [&](const NamedTensor& tensor) {
    return tensor.name == bias.name || tensor.name.substr(0, tensor.name.rfind('.')) == norm.name;
  });
  const auto place = std::ranges::find(exported.tensors, weight.name, &NamedTensor::name);
  *place = std::move(weight);
  exported.tensors.insert(place + 1, std::move(bias));
  return true;
}

}  // namespace

const NamedTensor* ExportedNetwork::find(const std::string& name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

void require_finite(const ExportedNetwork& exported, const std::string& file) {
  for (const NamedTensor& tensor : exported.tensors)
    require(std::ranges::all_of(tensor.values, [](float value) { return std::isfinite(value); }), Exit::numerics,
            "{}: the tensor {} has NaN or infinity; export weights from before the training diverged", file,
            printable(tensor.name));
}

int fold_batch_norms(ExportedNetwork& exported) {
  const std::vector<LayerSpec>& layers = exported.network.layers();
  int count = 0;
  for (int i = 0; std::cmp_less(i, layers.size()); ++i) {
    if (layers[i].kind != LayerSpec::Kind::batch_norm) continue;
    const int before = foldable_into(layers, i);
    if (before == LayerSpec::kNone || !fold(exported, layers[before].name, layers[i])) continue;
    exported.folded[i] = true;
    ++count;
  }
  return count;
}

}  // namespace ddp
