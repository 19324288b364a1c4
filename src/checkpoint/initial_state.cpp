#include "checkpoint/initial_state.h"

#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace ddp {
namespace {

using TensorMap = std::map<std::string, NamedTensor>;

constexpr const char *kWeight = ".weight", *kBias = ".bias";

std::string with_shape(const std::string& name, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", shortened(name), fmt::join(shape, ", "));
}

std::vector<const Parameter*> head_of(std::span<const Parameter> parameters) {
  const int layer = head_layer(parameters);
  std::vector<const Parameter*> head;
  for (const Parameter& p : parameters)
    if (p.layer == layer) head.push_back(&p);
  std::ranges::sort(head, {}, [](const Parameter* p) { return p->role; });
  return head;
}

// Of the first layer, if it is a convolution; else null.
const Parameter* first_convolution(std::span<const Parameter> parameters) {
  const auto first = std::ranges::min_element(parameters, {}, &Parameter::layer);
  const auto weight = std::ranges::find_if(parameters, [&](const Parameter& p) {
    return p.layer == first->layer && p.role == Parameter::Role::weight && p.pytorch_shape.size() == 4;
  });
  return weight == parameters.end() ? nullptr : &*weight;
}

// The file's names of its head: the network's own, or those of the only linear layer that the network does not have.
std::set<std::string> head_in(const TensorMap& tensors, const TensorFit& fit, const std::vector<const Parameter*>& head,
                              std::span<const NeededTensor> needed) {
  std::set<std::string> names;
  for (const Parameter* p : head)
    if (tensors.contains(fit.in_file(p->name))) names.insert(fit.in_file(p->name));
  if (!names.empty()) return names;
  std::set<std::string> known;
  for (const NeededTensor& tensor : needed) known.insert(fit.in_file(tensor.name));
  for (const auto& [name, tensor] : tensors)
    if (!known.contains(name) && name.ends_with(kWeight) && tensor.shape.size() == 2) names.insert(name);
  if (names.size() != 1) return {};
  const std::string bias = names.begin()->substr(0, names.begin()->size() - std::string(kWeight).size()) + kBias;
  if (tensors.contains(bias) && !known.contains(bias)) names.insert(bias);
  return names;
}

std::string replace_head(TensorMap& tensors, const TensorFit& fit, std::span<const Parameter> parameters,
                         std::span<const BatchNormState> batch_norms, const NewHead& rule) {
  const std::vector<const Parameter*> head = head_of(parameters);
  std::vector<std::string> left_out, begun;
  bool fits = true;
  for (const std::string& name : head_in(tensors, fit, head, state_dict_of(parameters, batch_norms))) {
    const auto found = tensors.find(name);
    left_out.push_back(with_shape(name, found->second.shape));
    fits = fits && std::ranges::any_of(head, [&](const Parameter* p) {
             return fit.in_file(p->name) == name && p->pytorch_shape == found->second.shape;
           });
    tensors.erase(found);
  }
  std::vector<float> flat(static_cast<size_t>(flat_count(parameters)));
  for (const Parameter* p : head) {
    initialize(flat, {p, 1}, rule.init, rule.seed);
    begun.push_back(with_shape(p->name, p->pytorch_shape));
    const std::string name = fit.in_file(p->name);
    tensors[name] = {name, p->pytorch_shape, to_pytorch(*p, flat)};
  }
  return fmt::format("{} begin{} new; {}", fmt::join(begun, " and "), begun.size() == 1 ? "s" : "",
                     left_out.empty()
                         ? "the file has no such layer"
                         : fmt::format("left out of the file: {}{}", fmt::join(left_out, ", "),
                                       fits ? ", whose shape fits, but --new-head begins this layer new" : ""));
}

// O,3,H,W to O,1,H,W. Empty: there is nothing to sum.
std::string sum_channels(TensorMap& tensors, const TensorFit& fit, std::span<const Parameter> parameters) {
  constexpr int64_t kColours = 3;
  const Parameter* const first = first_convolution(parameters);
  const auto found = first ? tensors.find(fit.in_file(first->name)) : tensors.end();
  if (found == tensors.end() || first->pytorch_shape[1] != 1) return "";
  NamedTensor& tensor = found->second;
  std::vector<int64_t> of_colour = first->pytorch_shape;
  of_colour[1] = kColours;
  if (tensor.shape != of_colour) return "";
  const int64_t window = of_colour[2] * of_colour[3];
  std::vector<float> sums;
  for (int64_t out = 0; out < of_colour[0]; ++out)
    for (int64_t k = 0; k < window; ++k) {
      double sum = 0;
      for (int64_t c = 0; c < kColours; ++c) sum += tensor.values[(out * kColours + c) * window + k];
      sums.push_back(static_cast<float>(sum));
    }
  tensor.shape = first->pytorch_shape;
  tensor.values = std::move(sums);
  return fmt::format("{} has {} input channels and the network 1: the sum over them is loaded", shortened(first->name),
                     kColours);
}

// What to do about weights that do not fit: a new head, or pictures of one channel. `fit` is that of `tensors`.
std::string advice(TensorMap tensors, const TensorFit& fit, std::span<const Parameter> parameters,
                   std::span<const BatchNormState> batch_norms, bool has_new_head) {
  const Parameter* const first = first_convolution(parameters);
  const auto found = first ? tensors.find(fit.in_file(first->name)) : tensors.end();
  if (found != tensors.end() && first->pytorch_shape[1] == 3 && found->second.shape.size() == 4 &&
      found->second.shape[1] == 1)
    return fmt::format("; {} reads one channel in the file: read the pictures as grey ones, with --channels 1",
                       shortened(first->name));
  if (has_new_head) return "; --new-head changes the last linear layer only";
  if (head_layer(parameters) < 0) return "";
  const auto lines = renew_head(tensors, fit, parameters, batch_norms, {});
  if (!fit_of(tensors, state_dict_of(parameters, batch_norms)).fits()) return "";
  return fmt::format("; all but the last layer{} fits: add --new-head, which begins that layer new{}",
                     lines.size() > 1 ? " and the channels of the first" : "",
                     lines.size() > 1 ? " and sums the channels" : "");
}

void require_finite(const TensorMap& tensors, const std::string& file) {
  for (const auto& [name, tensor] : tensors) {
    const auto bad = std::ranges::find_if(tensor.values, [](float value) { return !std::isfinite(value); });
    require(bad == tensor.values.end(), Exit::numerics,
            "{}: the tensor {} holds {} (number {} of its {} values); a network cannot begin with it: take the weights "
            "of an earlier checkpoint, or another file",
            file, shortened(name), bad == tensor.values.end() ? 0 : *bad, bad - tensor.values.begin() + 1,
            tensor.values.size());
  }
}

}  // namespace

std::vector<std::string> renew_head(TensorMap& tensors, const TensorFit& fit, std::span<const Parameter> parameters,
                                    std::span<const BatchNormState> batch_norms, const NewHead& head) {
  std::vector<std::string> lines{replace_head(tensors, fit, parameters, batch_norms, head)};
  if (std::string line = sum_channels(tensors, fit, parameters); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

ModelState load_initial_state(const std::filesystem::path& path, std::span<const Parameter> parameters,
                              std::span<const BatchNormState> batch_norms, const std::optional<NewHead>& new_head,
                              const LoadNotes& notes) {
  const std::string file = printable(path.native());
  const auto needed = state_dict_of(parameters, batch_norms);
  TensorMap tensors = read_safetensors(path);
  TensorFit fit = fit_of(tensors, needed, notes.derived);
  std::vector<std::string> lines;
  if (new_head) {
    lines = renew_head(tensors, fit, parameters, batch_norms, *new_head);
    fit = fit_of(tensors, needed, notes.derived);
  }
  if (!fit.fits())
    fail(Exit::model, "{}{}", misfit(file, tensors, fit, notes.network),
         advice(tensors, fit, parameters, batch_norms, new_head.has_value()));
  require_finite(tensors, file);
  if (notes.note)
    for (const std::string& line : lines) notes.note(fmt::format("{}: {}", file, line));
  return state_in(tensors, fit, file, parameters, batch_norms, notes);
}

}  // namespace ddp
