// Products of f32 in AVX-512 registers, for the headers beside this one. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/vectors.h"

#include <immintrin.h>

#include <cstdint>

namespace ddp {
namespace {

struct NumberF32 {
  using Stored = float;
  using Factor = float;
  static constexpr long kPair = 1;

  static __m512 load(const float* p) { return _mm512_loadu_ps(p); }
  static __m512 load(const float* p, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, p); }
  static void store(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
  static void store_words(uint32_t* p, __m512 v, __m512) { _mm512_storeu_ps(p, v); }
  static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
};

// bf16 in memory, products of f32. Rounds as the file's instruction set does (vectors.h).
struct NumberWide : NumberF32 {
  using Stored = uint16_t;
  using NumberF32::store;

  static __m512 load(const uint16_t* p) { return ddp::load<16>(p); }
  static __m512 load(const uint16_t* p, __mmask16 mask) { return ddp::load(p, mask); }
  static void store(uint16_t* p, __m512 v) { ddp::store<16>(p, v); }
};

}  // namespace
}  // namespace ddp
