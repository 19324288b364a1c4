// Where values of activations lie in memory, f32 or bf16, and single ones.
#pragma once

#include "core/bf16.h"
#include "device/tensor.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

// `at`: in elements as stored.
inline std::byte* element(const Tensor& t, int64_t at) {
  return static_cast<std::byte*>(t.data) + at * static_cast<int64_t>(size_of(t.dtype));
}

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
