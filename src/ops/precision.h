// What the multiplications of convolutions and linear layers are done in. Sums are f32 always, and so are weights and
// their gradients; what is sent between ranks is f32 too, unless gradients are sent in bf16.
#pragma once

#include <cstdint>

namespace ddp {

enum class Precision : uint8_t {
  fp32,  // f32, no tensor cores
  tf32,  // f32 in memory, rounded to 10 bits of mantissa for the tensor cores
  bf16,  // activations and copies of the weights are bf16
};

}  // namespace ddp
