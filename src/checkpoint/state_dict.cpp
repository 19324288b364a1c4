#include "checkpoint/state_dict.h"

#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace ddp {
namespace {

std::vector<float> values_of(const BatchNormState& norm, std::span<const float> statistics, int64_t part) {
  const auto first = statistics.begin() + norm.span.offset + part * norm.span.channels;
  return {first, first + norm.span.channels};
}

// The tensors of a file. take() moves one tensor out.
class TensorsOfFile {
 public:
  explicit TensorsOfFile(const std::filesystem::path& path)
      : path_(printable(path.native())), tensors_(read_safetensors(path)) {}

  NamedTensor take(const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = tensors_.find(name);
    require(found != tensors_.end(), Exit::model, "{} has no tensor {}; it belongs to another model", path_, name);
    require(found->second.shape == shape, Exit::model, "{}: tensor {} has shape [{}], the model needs [{}]", path_,
            name, fmt::join(found->second.shape, ", "), fmt::join(shape, ", "));
    NamedTensor tensor = std::move(found->second);
    tensors_.erase(found);
    return tensor;
  }

  void require_none_left() const {
    require(tensors_.empty(), Exit::model, "{} has tensor {}, which the model does not have", path_,
            tensors_.empty() ? "" : shortened(tensors_.begin()->first));
  }

 private:
  std::string path_;
  std::map<std::string, NamedTensor> tensors_;
};

}  // namespace

Metadata with_statistics(Metadata metadata, std::span<const BatchNormState> batch_norms, int64_t samples) {
  if (!batch_norms.empty())
    metadata["batch_norm_statistics"] =
        samples > 0 ? fmt::format("recomputed from {} training samples", samples) : "running averages";
  return metadata;
}

void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const BatchNormState> batch_norms, const ModelStateView& state,
                     const Metadata& metadata) {
  std::vector<const Parameter*> forward;
  for (const Parameter& p : parameters) forward.push_back(&p);
  std::stable_sort(forward.begin(), forward.end(), [](auto* a, auto* b) { return a->layer < b->layer; });

  std::vector<NamedTensor> tensors;
  for (const Parameter* p : forward) tensors.push_back({p->name, p->pytorch_shape, to_pytorch(*p, state.weights)});
  for (const BatchNormState& n : batch_norms) {
    const std::vector<int64_t> shape{n.span.channels};
    if (!n.scale) tensors.push_back({n.layer_name + ".weight", shape, std::vector<float>(n.span.channels, 1.0f)});
    tensors.push_back({n.layer_name + ".running_mean", shape, values_of(n, state.statistics, 0)});
    tensors.push_back({n.layer_name + ".running_var", shape, values_of(n, state.statistics, 1)});
    tensors.push_back({.name = n.layer_name + ".num_batches_tracked", .shape = {}, .integer = state.updates});
  }
  write_safetensors(path, tensors, metadata);
}

ModelState load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                           std::span<const BatchNormState> batch_norms) {
  TensorsOfFile tensors(path);
  ModelState state{.weights = std::vector<float>(flat_count(parameters)),
                   .statistics = std::vector<float>(state_count(batch_norms))};
  for (const Parameter& p : parameters) from_pytorch(p, tensors.take(p.name, p.pytorch_shape).values, state.weights);
  for (const BatchNormState& n : batch_norms) {
    const std::vector<int64_t> shape{n.span.channels};
    if (!n.scale) {
      const auto scale = tensors.take(n.layer_name + ".weight", shape).values;
      require(std::all_of(scale.begin(), scale.end(), [](float s) { return s == 1; }), Exit::model,
              "{}: {}.weight is not all 1, but this model's batch norms have no scale", printable(path.native()),
              n.layer_name);
    }
    const auto first = state.statistics.begin() + n.span.offset;
    std::ranges::copy(tensors.take(n.layer_name + ".running_mean", shape).values, first);
    std::ranges::copy(tensors.take(n.layer_name + ".running_var", shape).values, first + n.span.channels);
    state.updates = tensors.take(n.layer_name + ".num_batches_tracked", {}).integer.value_or(0);
  }
  tensors.require_none_left();
  return state;
}

}  // namespace ddp
