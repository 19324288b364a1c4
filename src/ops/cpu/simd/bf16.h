// Values of bf16 in AVX-512 registers, for the headers beside this one. All names have internal linkage (kernels.h).
#pragma once

#include "ops/cpu/simd/vectors.h"

#include <immintrin.h>

#include <cstdint>

namespace ddp {
namespace {

struct NumberBf16 {
  using Stored = uint16_t;
  using Factor = uint16_t;
  static constexpr long kPair = 2;

  static __m512 load(const uint16_t* p) { return ddp::load<16>(p); }
  static __m512 load(const uint16_t* p, __mmask16 mask) { return ddp::load(p, mask); }
  static void store(uint16_t* p, __m512 v) { ddp::store<16>(p, v); }
  static __m256i raw(const uint16_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static void store_words(uint32_t* p, __m512 low, __m512 high) {
    store_woven(p, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
  static void store_words(uint32_t* p, __m256i low, __m256i high) {
    store_woven(p, _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }
  // The lower half of `both` has the lower values of the words.
  static void store_woven(uint32_t* p, __m512i both) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, both));
  }
  static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace
}  // namespace ddp
