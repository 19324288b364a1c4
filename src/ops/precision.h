// The precision of the multiplications in convolutions and linear layers. Sums, weights and their gradients are always
// f32. Communication between ranks is f32 too, unless the run sends gradients in bf16.
#pragma once

#include <cstdint>

namespace ddp {

enum class Precision : uint8_t {
  fp32,  // f32, no tensor cores
  tf32,  // f32 in memory; tensor cores round inputs to 10 bits of mantissa
  bf16,  // bf16 activations and bf16 copies of the weights
};

}  // namespace ddp
