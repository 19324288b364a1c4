#include "train/step/zero_gradients.h"

#include <algorithm>
#include <span>

namespace ddp {

std::vector<std::string> zero_gradients_of(const Replica& replica) {
  std::vector<std::string> names;
  if (replica.reducer.sharded()) return names;
  const std::vector<float> gradients = replica.download_gradients();
  for (const Parameter& p : trained_of(replica.parameters))
    if (p.bias_gradient != LayerSpec::BiasGradient::nobody &&
        std::ranges::all_of(std::span(gradients).subspan(p.offset, p.count), [](float g) { return g == 0; }))
      names.push_back(p.name);
  return names;
}

}  // namespace ddp
