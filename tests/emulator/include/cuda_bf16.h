// bf16: the upper half of a float.
#pragma once

#include "cuda_runtime.h"

#include <bit>
#include <cstdint>

namespace emulator {

// Rounds to nearest, ties to even. Every NaN becomes the GPU's canonical NaN.
constexpr uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace emulator

struct __nv_bfloat16 {
  __nv_bfloat16() = default;
  constexpr __nv_bfloat16(float value) : bits(emulator::to_bf16(value)) {}
  constexpr operator float() const { return emulator::from_bf16(bits); }

  uint16_t bits;
};
using nv_bfloat16 = __nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat162 = __nv_bfloat162;

constexpr __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
constexpr __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
constexpr float __bfloat162float(__nv_bfloat16 value) { return value; }
constexpr uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
constexpr __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits) { return std::bit_cast<__nv_bfloat16>(bits); }

constexpr __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
constexpr __nv_bfloat162 __float22bfloat162_rn(float2 value) { return __floats2bfloat162_rn(value.x, value.y); }
constexpr __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
constexpr float2 __bfloat1622float2(__nv_bfloat162 value) { return {value.x, value.y}; }
constexpr float __low2float(__nv_bfloat162 value) { return value.x; }
constexpr float __high2float(__nv_bfloat162 value) { return value.y; }
