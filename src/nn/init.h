// Initial weights: a pure function of (seed, parameter, element in PyTorch's layout), the same on every rank.
#pragma once

#include "nn/parameters.h"

#include <cstdint>
#include <span>

namespace ddp {

struct Init {
  enum class Kind { pytorch, normal };
  Kind kind = Kind::pytorch;
  double stddev = 0.01;  // of normal
};

// pytorch: weights and biases uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)], which is what torch.nn.Linear and Conv2d do
// (kaiming_uniform with a = sqrt(5)). normal: weights N(0, stddev^2), biases 0.
void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed);

}  // namespace ddp
