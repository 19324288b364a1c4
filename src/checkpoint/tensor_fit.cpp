#include "checkpoint/tensor_fit.h"

#include "core/error.h"
#include "core/printable.h"
#include "nn/models.h"

#include <fmt/ranges.h>

#include <algorithm>
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

// All dotted prefixes that the names share, the shortest one first: "", "module.", "module._orig_mod.".
std::vector<std::string> shared_prefixes(const std::map<std::string, NamedTensor>& file) {
  constexpr size_t kMost = 8;
  std::vector<std::string> prefixes{""};
  if (file.empty()) return prefixes;
  const std::string &first = file.begin()->first, &last = file.rbegin()->first;  // of all names in order
  const size_t shared = std::ranges::mismatch(first, last).in1 - first.begin();
  for (size_t i = 0; i < shared && prefixes.size() < kMost; ++i)
    if (first[i] == '.') prefixes.push_back(first.substr(0, i + 1));
  return prefixes;
}

TensorFit compare(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed,
                  const std::string& prefix) {
  TensorFit fit{.prefix = prefix, .other_shape = {}, .missing = {}, .unknown = {}};
  std::set<std::string> known;
  for (const NeededTensor& tensor : needed) {
    const auto found = file.find(prefix + tensor.name);
    if (found == file.end() && tensor.optional) continue;
    ++fit.needed;
    if (found == file.end()) {
      add(fit.missing, tensor.name);
      continue;
    }
    known.insert(found->first);
    if (found->second.shape == tensor.shape)
      ++fit.fitting;
    else
      add(fit.other_shape, tensor.name,
          fmt::format(" (file [{}], model [{}])", fmt::join(found->second.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
  for (const auto& [name, tensor] : file)
    if (!known.contains(name)) add(fit.unknown, name);
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
  return fmt::format("{} of its {} tensors fit{}{}{}{}", fitting, needed, text_of("another shape", other_shape),
                     text_of("not in the file", missing), text_of("only in the file", unknown),
                     prefix.empty() ? "" : fmt::format("; without the prefix {}", shortened(prefix)));
}

TensorFit fit_of(const std::map<std::string, NamedTensor>& file, std::span<const NeededTensor> needed) {
  const auto names = [](const TensorFit& fit) { return fit.fitting + fit.other_shape.count; };
  TensorFit best;
  for (const std::string& prefix : shared_prefixes(file))
    if (TensorFit fit = compare(file, needed, prefix); prefix.empty() || names(fit) > names(best))
      best = std::move(fit);
  return best;
}

std::string better_network(const std::map<std::string, NamedTensor>& file, const TensorFit& fit,
                           const NamedNetwork& network) {
  TensorFit best = fit;
  std::string name;
  for (const ModelFile& model : built_in_models()) {
    try {
      const Network other = make_model(model.name, network.image, network.classes);
      TensorFit its = fit_of(file, state_dict_of(parameters_of(other), batch_norm_states_of(other)));
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
