#include "nn/init.h"

#include "core/philox.h"
#include "nn/normal_quantile.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using Role = Parameter::Role;
using RuleKind = InitRule::Kind;

InitRule rule_of(const Parameter& p, const Init& init) {
  const InitRule zeros{RuleKind::constant, 0};
  switch (p.role) {
    case Role::norm_scale: return {RuleKind::constant, 1};
    case Role::norm_shift:
    case Role::class_token: return zeros;
    case Role::layer_scale: return {RuleKind::constant, p.initial};
    case Role::position_embedding: return p.init;
    case Role::weight:
    case Role::bias: break;
  }
  const auto fan_in = static_cast<double>(p.fan_in), fan_out = static_cast<double>(p.fan_out);
  if (init.kind == Init::Kind::of_network)
    return p.init.kind == RuleKind::pytorch ? InitRule{RuleKind::uniform, 1 / std::sqrt(fan_in)} : p.init;
  if (p.role == Role::bias) return zeros;
  if (init.kind == Init::Kind::glorot) return {RuleKind::uniform, std::sqrt(6 / (fan_in + fan_out))};
  return {RuleKind::normal, init.stddev};
}

// By the inverse of the distribution, from one uniform number.
double draw_trunc_normal(double stddev, const RandomStream& random, uint64_t index) {
  constexpr double kCut = 2;
  const double below = normal_cdf(-kCut / stddev);
  const double u = (random.bits(index).word[0] + 0.5) * 0x1p-32;
  return std::clamp(stddev * normal_quantile(below + u * (1 - 2 * below)), -kCut, kCut);
}

float value_of(const InitRule& rule, const RandomStream& random, uint64_t index) {
  switch (rule.kind) {
    case RuleKind::constant: return static_cast<float>(rule.value);
    case RuleKind::normal: return static_cast<float>(rule.value * random.normal(index));
    case RuleKind::trunc_normal: return static_cast<float>(draw_trunc_normal(rule.value, random, index));
    case RuleKind::pytorch:
    case RuleKind::uniform: break;
  }
  return static_cast<float>(rule.value * (2.0 * random.uniform(index) - 1));
}

}  // namespace

void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed) {
  for (const Parameter& p : parameters) {
    const auto stream = static_cast<uint32_t>(2 * p.layer + (p.role == Role::bias ? 1 : 0));
    const RandomStream random(seed, Operation::initial_weights, stream);
    const InitRule rule = rule_of(p, init);
    for (int64_t i = 0; i < p.count; ++i)
      flat[p.offset + i] = value_of(rule, random, static_cast<uint64_t>(p.pytorch_index(i)));
  }
}

}  // namespace ddp
