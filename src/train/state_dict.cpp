#include "train/state_dict.h"

#include "core/error.h"
#include "train/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ddp {

void save_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters,
                     std::span<const float> flat) {
  std::vector<const Parameter*> forward;
  for (const Parameter& p : parameters) forward.push_back(&p);
  std::stable_sort(forward.begin(), forward.end(), [](auto* a, auto* b) { return a->layer < b->layer; });

  std::vector<NamedTensor> tensors;
  for (const Parameter* p : forward) tensors.push_back({p->name, p->pytorch_shape, to_pytorch(*p, flat)});
  write_safetensors(path, tensors);
}

std::vector<float> load_state_dict(const std::filesystem::path& path, std::span<const Parameter> parameters) {
  auto tensors = read_safetensors(path);
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters) {
    const auto found = tensors.find(p.name);
    require(found != tensors.end(), Exit::model, "{} has no tensor {}; it is not of this model", path.string(), p.name);
    require(found->second.shape == p.pytorch_shape, Exit::model, "{}: tensor {} has shape [{}], the model needs [{}]",
            path.string(), p.name, fmt::join(found->second.shape, ", "), fmt::join(p.pytorch_shape, ", "));
    from_pytorch(p, found->second.values, flat);
    tensors.erase(found);
  }
  require(tensors.empty(), Exit::model, "{} has tensor {}, which the model does not have", path.string(),
          tensors.empty() ? "" : tensors.begin()->first);
  return flat;
}

}  // namespace ddp
