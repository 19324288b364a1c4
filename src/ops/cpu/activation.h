// Access to single values of activations, in f32 or bf16.
#pragma once

#include "core/bf16.h"
#include "device/tensor.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

// Address of stored element `at`; padding counts.
inline std::byte* element(const Tensor& t, int64_t at) {
  return static_cast<std::byte*>(t.data) + at * static_cast<int64_t>(size_of(t.dtype));
}

inline float get(const float& value) { return value; }
inline float get(const uint16_t& value) { return float_of_bf16(value); }
inline void set(float& to, float value) { to = value; }
inline void set(uint16_t& to, float value) { to = bf16_of_float(value); }

// Calls f with a float* or a uint16_t* (bf16), by the type of t.
template <class F>
void with_values(const Tensor& t, F&& f) {
  if (t.dtype == DType::bf16)
    f(static_cast<uint16_t*>(t.data));
  else
    f(t.f32());
}

}  // namespace ddp
