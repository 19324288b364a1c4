// Initial weights: a pure function of (seed, parameter, element in PyTorch's layout), the same on every rank.
#pragma once

#include "nn/parameters.h"

#include <cstdint>
#include <span>

namespace ddp {

struct Init {
  enum class Kind { pytorch, normal, glorot };
  Kind kind = Kind::pytorch;
  double stddev = 0.01;  // of normal
};

// pytorch: weights and biases uniform in [-1/sqrt(fan_in), 1/sqrt(fan_in)], which is what torch.nn.Linear and Conv2d do
// (kaiming_uniform with a = sqrt(5)). normal: weights N(0, stddev^2), biases 0. glorot, Keras's: weights uniform in
// [-b, b] with b = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010), biases 0. Norms begin with scale 1 and
// shift 0 in all of them.
void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed);

}  // namespace ddp
