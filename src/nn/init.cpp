#include "nn/init.h"

#include "core/philox.h"

#include <cmath>

namespace ddp {
namespace {

using Role = Parameter::Role;

float value_of(const Parameter& p, const Init& init, const RandomStream& random, uint64_t index) {
  switch (p.role) {
    case Role::norm_scale: return 1;
    case Role::norm_shift:
    case Role::class_token: return 0;
    case Role::layer_scale: return p.initial;
    case Role::position_embedding: return static_cast<float>(0.02 * random.normal(index));
    case Role::weight:
    case Role::bias: break;
  }
  const auto uniform = [&](double bound) { return static_cast<float>(bound * (2.0 * random.uniform(index) - 1)); };
  const auto fan_in = static_cast<double>(p.fan_in), fan_out = static_cast<double>(p.fan_out);
  if (init.kind == Init::Kind::pytorch) return uniform(1 / std::sqrt(fan_in));
  if (p.role == Role::bias) return 0;
  if (init.kind == Init::Kind::glorot) return uniform(std::sqrt(6 / (fan_in + fan_out)));
  return static_cast<float>(init.stddev * random.normal(index));
}

}  // namespace

void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed) {
  for (const Parameter& p : parameters) {
    const auto stream = static_cast<uint32_t>(2 * p.layer + (p.role == Role::bias ? 1 : 0));
    const RandomStream random(seed, Operation::initial_weights, stream);
    for (int64_t i = 0; i < p.count; ++i)
      flat[p.offset + i] = value_of(p, init, random, static_cast<uint64_t>(p.pytorch_index(i)));
  }
}

}  // namespace ddp
