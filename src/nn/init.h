// Initial weights. They are a pure function of (seed, parameter, element in PyTorch's layout), so all ranks have the
// same weights.
#pragma once

#include "nn/parameters.h"

#include <cstdint>
#include <span>

namespace ddp {

struct Init {
  enum class Kind { of_network, normal, glorot };
  Kind kind = Kind::of_network;
  double stddev = 0.01;  // standard deviation for Kind::normal
};

// Writes the parameters to `flat`, at their offsets; gaps are not touched.
//
//   of_network  weights and biases by the rules of the network (LayerSpec::weight_init, bias_init); without one, as
//               PyTorch's layers
//   normal      weights N(0, stddev^2), biases 0
//   glorot      weights uniform in [-b, b] with b = sqrt(6 / (fan_in + fan_out)), biases 0 (Glorot and Bengio, 2010;
//   the
//               default of Keras)
//
// In all three, norms start with scale 1 and shift 0, layer scales with the value of their layer, class tokens with 0,
// and position embeddings as N(0, 0.02^2), as in torchvision.
void initialize(std::span<float> flat, std::span<const Parameter> parameters, const Init& init, uint64_t seed);

}  // namespace ddp
