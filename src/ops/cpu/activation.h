// Single values of activations, f32 or bf16 in memory.
#pragma once

#include "core/bf16.h"
#include "device/tensor.h"

#include <cstdint>

namespace ddp {

inline float get(const float& value) { return value; }
inline float get(const uint16_t& value) { return float_of_bf16(value); }
inline void set(float& to, float value) { to = value; }
inline void set(uint16_t& to, float value) { to = bf16_of_float(value); }

// f(float* or uint16_t*), as the type of t.
template <class F>
void with_values(const Tensor& t, F&& f) {
  if (t.dtype == DType::bf16)
    f(static_cast<uint16_t*>(t.data));
  else
    f(t.f32());
}

}  // namespace ddp
