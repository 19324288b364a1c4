#include "nn/init.h"

#include "core/philox.h"

#include <cmath>

namespace ddp {

void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed) {
  for (const Parameter& p : parameters) {
    const auto stream = static_cast<uint32_t>(2 * p.layer + (p.bias ? 1 : 0));
    const RandomStream random(seed, Operation::initial_weights, stream);
    const double bound = 1 / std::sqrt(static_cast<double>(p.fan_in));
    for (int64_t i = 0; i < p.count; ++i) {
      const auto index = static_cast<uint64_t>(p.pytorch_index(i));
      double value = 0;
      if (init.kind == Init::Kind::pytorch)
        value = bound * (2.0 * random.uniform(index) - 1);
      else if (!p.bias)
        value = init.stddev * random.normal(index);
      flat[p.offset + i] = static_cast<float>(value);
    }
  }
}

}  // namespace ddp
