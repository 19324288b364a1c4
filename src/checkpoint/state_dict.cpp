#include "checkpoint/state_dict.h"

#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ddp {
namespace {

std::vector<float> values_of(const BatchNormState& norm, std::span<const float> statistics, int64_t part) {
  const auto first = statistics.begin() + norm.span.offset + part * norm.span.channels;
  return {first, first + norm.span.channels};
}

}  // namespace

Metadata with_statistics(Metadata metadata, std::span<const BatchNormState> batch_norms, int64_t samples) {
  if (!batch_norms.empty())
    metadata["batch_norm_statistics"] =
        samples > 0 ? fmt::format("recomputed from {} training samples", samples) : "running averages";
  return metadata;
}

Metadata of_average(Metadata metadata, std::span<const BatchNormState> batch_norms) {
  metadata["weights"] = "exponential moving average";
  return with_statistics(std::move(metadata), batch_norms, 0);
}

std::vector<TensorSource> tensor_sources(std::span<const Parameter> parameters,
                                         std::span<const BatchNormState> batch_norms, const ModelStateView& state) {
  std::vector<const Parameter*> forward;
  for (const Parameter& p : parameters) forward.push_back(&p);
  std::stable_sort(forward.begin(), forward.end(), [](auto* a, auto* b) { return a->layer < b->layer; });

  std::vector<TensorSource> tensors;
  for (const Parameter* p : forward)
    tensors.push_back({p->name, p->pytorch_shape, [p, flat = state.weights] { return to_pytorch(*p, flat); }});
  size_t frozen = 0;
  for (const BatchNormState& n : batch_norms) {
    int64_t updates = state.updates;
    if (!n.trained) updates = state.frozen_updates.empty() ? 0 : state.frozen_updates[frozen++];
    const std::vector<int64_t> shape{n.span.channels};
    if (!n.scale)
      tensors.push_back(
          {n.layer_name + ".weight", shape, [n = n.span.channels] { return std::vector<float>(n, 1.0f); }});
    for (const int part : {0, 1})
      tensors.push_back({n.layer_name + (part == 0 ? ".running_mean" : ".running_var"), shape,
                         [&n, part, all = state.statistics] { return values_of(n, all, part); }});
    tensors.push_back({.name = n.layer_name + ".num_batches_tracked", .shape = {}, .integer = updates});
  }
  return tensors;
}

std::vector<NamedTensor> named_tensors(std::span<const Parameter> parameters,
                                       std::span<const BatchNormState> batch_norms, const ModelStateView& state) {
  std::vector<NamedTensor> tensors;
  for (TensorSource& source : tensor_sources(parameters, batch_norms, state))
    tensors.push_back({.name = std::move(source.name),
                       .shape = std::move(source.shape),
                       .values = source.values ? source.values() : std::vector<float>(),
                       .integer = source.integer});
  return tensors;
}

void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const BatchNormState> batch_norms, const ModelStateView& state,
                     const Metadata& metadata) {
  write_safetensors(path, tensor_sources(parameters, batch_norms, state), metadata);
}

std::string misfit(const std::string& file, const std::map<std::string, NamedTensor>& tensors, const TensorFit& fit,
                   const NamedNetwork& network) {
  return fmt::format("{} does not fit {}: {}{}", file, network.name.empty() ? "the model" : network.name, fit.text(),
                     network.name.empty() ? "" : better_network(tensors, fit, network));
}

ModelState load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                           std::span<const BatchNormState> batch_norms, const LoadNotes& notes) {
  const std::string file = printable(path.native());
  const auto tensors = read_safetensors(path);
  const TensorFit fit = fit_of(tensors, state_dict_of(parameters, batch_norms), notes.derived);
  if (!fit.fits()) fail(Exit::model, "{}", misfit(file, tensors, fit, notes.network));
  return state_in(tensors, fit, file, parameters, batch_norms, notes);
}

ModelState state_in(const std::map<std::string, NamedTensor>& tensors, const TensorFit& fit, const std::string& file,
                    std::span<const Parameter> parameters, std::span<const BatchNormState> batch_norms,
                    const LoadNotes& notes) {
  if (!fit.prefix.empty() && notes.note)
    notes.note(fmt::format("{}: the names of all {} tensors begin with \"{}\", which is removed", file, tensors.size(),
                           shortened(fit.prefix)));
  if (!fit.lacking.empty() && notes.note)
    notes.note(fmt::format("{}: the names of all {} tensors lack \"{}\", which is added", file, tensors.size(),
                           shortened(fit.lacking)));

  ModelState state{.weights = std::vector<float>(flat_count(parameters)),
                   .statistics = std::vector<float>(state_count(batch_norms))};
  const auto tensor = [&](const std::string& name) -> const NamedTensor& { return tensors.at(fit.in_file(name)); };
  for (const Parameter& p : parameters) from_pytorch(p, tensor(p.name).values, state.weights);
  for (const BatchNormState& n : batch_norms) {
    if (!n.scale)
      require(std::ranges::all_of(tensor(n.layer_name + ".weight").values, [](float s) { return s == 1; }), Exit::model,
              "{}: {}.weight is not all 1, but this model's batch norms have no scale", file, n.layer_name);
    const auto first = state.statistics.begin() + n.span.offset;
    std::ranges::copy(tensor(n.layer_name + ".running_mean").values, first);
    std::ranges::copy(tensor(n.layer_name + ".running_var").values, first + n.span.channels);
    const auto updates = tensors.find(fit.in_file(n.layer_name + ".num_batches_tracked"));
    const bool given = updates != tensors.end();
    if (!n.trained)
      state.frozen_updates.push_back(given ? updates->second.integer.value_or(0) : 0);
    else if (given)
      state.updates = updates->second.integer.value_or(0);
  }
  return state;
}

}  // namespace ddp
