#include "checkpoint/tensor_fit.h"

#include "core/error.h"
#include "core/printable.h"
#include "nn/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>
#include <utility>

namespace ddp {
namespace {

void add(TensorFit::Some& some, const std::string& name, const std::string& more = "") {
  constexpr size_t kShown = 3;
  if (++some.count <= static_cast<int64_t>(kShown)) some.texts.push_back(shortened(name) + more);
}

std::string text_of(const char* kind, const TensorFit::Some& some) {
  if (some.count == 0) return "";
  const int64_t more = some.count - std::ssize(some.texts);
  return fmt::format("; {}: {}{}", kind, fmt::join(some.texts, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// All dotted prefixes that the names from `first` to `last` in order share, the shortest one first: "", "module.",
// "module._orig_mod.".
std::vector<std::string> shared_prefixes(const std::string& first, const std::string& last) {
  constexpr size_t kMost = 8;
  std::vector<std::string> prefixes{""};
  const size_t shared = std::ranges::mismatch(first, last).in1 - first.begin();
  for (size_t i = 0; i < shared && prefixes.size() < kMost; ++i)
    if (first[i] == '.') prefixes.push_back(first.substr(0, i + 1));
  return prefixes;
}

std::vector<std::string> prefixes_of(const std::map<std::string, NamedTensor>& file) {
  return file.empty() ? std::vector<std::string>{""} : shared_prefixes(file.begin()->first, file.rbegin()->first);
}

std::vector<std::string> prefixes_of(std::span<const NeededTensor> needed) {
  if (needed.empty()) return {""};
  const auto [first, last] = std::ranges::minmax_element(needed, {}, &NeededTensor::name);
  return shared_prefixes(first->name, last->name);
}

bool is_causal_mask(const NamedTensor& tensor) {
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() != 4 || shape[0] != 1 || shape[1] != 1 || shape[2] != shape[3]) return false;
  const int64_t n = shape[2];
  for (int64_t row = 0; row < n; ++row)
    for (int64_t column = 0; column < n; ++column)
      if (tensor.values[static_cast<size_t>(row * n + column)] != (column <= row ? 1.0f : 0.0f)) return false;
  return true;
}

// What is wrong with a derived tensor of the file; empty: nothing.
std::string fault_of(const DerivedTensor& derived, const NamedTensor& tensor,
                     const std::map<std::string, NamedTensor>& file, const TensorFit& fit) {
  constexpr float kMaskValue = -9984;  // -10,000 in bf16
  switch (derived.kind) {
    case DerivedTensor::Kind::copy: {
      const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
      const auto found = file.find(fit.in_file(derived.of));
      const bool equal = found != file.end() && found->second.shape == tensor.shape &&
                         std::ranges::equal(found->second.values, tensor.values, {}, bits, bits);
      return equal ? "" : fmt::format("not the values of {}, and the network has one tensor for both", derived.of);
    }
    case DerivedTensor::Kind::causal_mask: return is_causal_mask(tensor) ? "" : "not a causal mask";
    case DerivedTensor::Kind::mask_value:
      return tensor.values.size() == 1 && tensor.values[0] <= kMaskValue ? "" : "not the value of a mask, -10000";
  }
  return "";
}

TensorFit compare(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed,
                  std::span<const DerivedTensor> derived, const std::string& prefix, const std::string& lacking) {
  TensorFit fit{.prefix = prefix, .lacking = lacking};
  std::set<std::string> known;
  for (const NeededTensor& tensor : needed) {
    const auto found = file.find(fit.in_file(tensor.name));
    if (found == file.end() && tensor.optional) continue;
    ++fit.needed;
    if (found == file.end()) {
      add(fit.missing, tensor.name);
      continue;
    }
    known.insert(found->first);
    if (found->second.is_mask)
      add(fit.other_shape, tensor.name, " (numbers of U8 or BOOL, which only a mask may have)");
    else if (found->second.shape == tensor.shape)
      ++fit.fitting;
    else
      add(fit.other_shape, tensor.name,
          fmt::format(" (file [{}], model [{}])", fmt::join(found->second.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
  for (const auto& [name, tensor] : file) {
    if (known.contains(name)) continue;
    const auto found = std::ranges::find(derived, name, [&](const DerivedTensor& d) { return fit.in_file(d.name); });
    if (found == derived.end())
      add(fit.unknown, name);
    else if (const std::string fault = fault_of(*found, tensor, file, fit); !fault.empty())
      add(fit.other_values, name, fmt::format(" ({})", fault));
  }
  return fit;
}

}  // namespace

std::vector<NeededTensor> state_dict_of(std::span<const Parameter> parameters,
                                        std::span<const BatchNormState> batch_norms) {
  std::vector<NeededTensor> needed;
  for (const Parameter& p : parameters) needed.push_back({p.name, p.pytorch_shape});
  for (const BatchNormState& n : batch_norms) {
    const std::vector<int64_t> shape{n.span.channels};
    if (!n.scale) needed.push_back({n.layer_name + ".weight", shape});
    needed.push_back({n.layer_name + ".running_mean", shape});
    needed.push_back({n.layer_name + ".running_var", shape});
    needed.push_back({n.layer_name + ".num_batches_tracked", {}, true});
  }
  return needed;
}

std::string TensorFit::text() const {
  return fmt::format("{} of its {} tensors fit{}{}{}{}{}{}", fitting, needed, text_of("another shape", other_shape),
                     text_of("not in the file", missing), text_of("only in the file", unknown),
                     text_of("other values", other_values),
                     prefix.empty() ? "" : fmt::format("; without the prefix {}", shortened(prefix)),
                     lacking.empty() ? "" : fmt::format("; with the prefix {}", shortened(lacking)));
}

std::vector<DerivedTensor> derived_tensors(const Network& network) {
  using Kind = DerivedTensor::Kind;
  std::vector<DerivedTensor> derived;
  for (const LayerSpec& layer : network.layers()) {
    if (layer.tied != LayerSpec::kNone)
      derived.push_back(
          {layer.name + ".weight", Kind::copy, network.layers()[static_cast<size_t>(layer.tied)].name + ".weight"});
    if (layer.kind != LayerSpec::Kind::attention || !layer.causal) continue;
    const std::string module = layer.name.substr(0, layer.name.rfind('.') + 1);
    derived.push_back({module + "bias", Kind::causal_mask});
    derived.push_back({module + "masked_bias", Kind::mask_value});
  }
  return derived;
}

TensorFit fit_of(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed,
                 std::span<const DerivedTensor> derived) {
  const auto names = [](const TensorFit& fit) { return fit.fitting + fit.other_shape.count; };
  std::optional<TensorFit> best;
  for (const std::string& lacking : prefixes_of(needed))
    for (const std::string& prefix : prefixes_of(file))
      if (TensorFit fit = compare(file, needed, derived, prefix, lacking); !best || names(fit) > names(*best))
        best = std::move(fit);
  return *best;
}

std::string better_network(const std::map<std::string, NamedTensor>& file, const TensorFit& fit,
                           const NamedNetwork& network) {
  TensorFit best = fit;
  std::string name;
  for (const ModelFile& model : built_in_models()) {
    try {
      const Network other = make_model(model.name, network.image, network.classes);
      TensorFit its =
          fit_of(file, state_dict_of(parameters_of(other), batch_norm_states_of(other)), derived_tensors(other));
      if (its.fitting <= best.fitting) continue;
      best = std::move(its);
      name = model.name;
    } catch (const Error&) {  // a network that these images do not fit
    }
  }
  if (name.empty()) return "";
  return fmt::format("; {} fits better: {} of its {} tensors, so use --model {}", name, best.fitting, best.needed,
                     name);
}

}  // namespace ddp
