// Vectors of L floats, with loads and stores of f32 or bf16 (uint16_t) memory, in integer arithmetic that all
// instruction sets have; files for AVX512_BF16 round by its instruction. All names have internal linkage (kernels.h).
#pragma once

#include <cstdint>
#include <type_traits>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace ddp {
namespace {

template <int L>
struct SimdTypes {
  typedef float Vector __attribute__((vector_size(L * 4)));
  typedef uint32_t Bits __attribute__((vector_size(L * 4)));
  typedef int32_t Signed __attribute__((vector_size(L * 4)));
  typedef uint16_t Half __attribute__((vector_size(L * 2)));
  typedef float LooseVector __attribute__((vector_size(L * 4), aligned(4), may_alias));
  typedef uint16_t LooseHalf __attribute__((vector_size(L * 2), aligned(2), may_alias));
};

template <>
struct SimdTypes<1> {
  using Vector = float;
  using Bits = uint32_t;
  using Signed = int32_t;
  using Half = uint16_t;
  using LooseVector = float;
  using LooseHalf = uint16_t;
};

template <int L>
using Vector = typename SimdTypes<L>::Vector;

template <int L>
inline Vector<L> load(const float* p) {
  return *reinterpret_cast<const typename SimdTypes<L>::LooseVector*>(p);
}
template <int L>
inline Vector<L> load(const uint16_t* p) {
  const typename SimdTypes<L>::Half half = *reinterpret_cast<const typename SimdTypes<L>::LooseHalf*>(p);
  if constexpr (L == 1)
    return __builtin_bit_cast(float, uint32_t{half} << 16);
  else
    return __builtin_bit_cast(Vector<L>, __builtin_convertvector(half, typename SimdTypes<L>::Bits) << 16);
}
#ifdef __AVX512F__
inline Vector<16> widened(__m256i half) {
  const auto bits = __builtin_bit_cast(SimdTypes<16>::Bits, _mm512_maskz_cvtepu16_epi32(0xffff, half));
  return __builtin_bit_cast(Vector<16>, bits << 16);
}
template <>
inline Vector<16> load<16>(const uint16_t* p) {  // the generic version takes four instructions in GCC 12
  return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
// The values of the mask; the others are 0.
inline Vector<16> load(const uint16_t* p, __mmask16 mask) { return widened(_mm256_maskz_loadu_epi16(mask, p)); }
#endif

template <int L>
inline void store(float* p, const Vector<L>& v) {
  *reinterpret_cast<typename SimdTypes<L>::LooseVector*>(p) = v;
}

// For values that bf16 has, which need no rounding.
template <int L>
inline void store_exact(float* p, const Vector<L>& v) {
  store<L>(p, v);
}
template <int L>
inline void store_exact(uint16_t* p, const Vector<L>& v) {
  const auto upper = __builtin_bit_cast(typename SimdTypes<L>::Bits, v) >> 16;
  if constexpr (L == 1)
    *p = static_cast<uint16_t>(upper);
  else
    *reinterpret_cast<typename SimdTypes<L>::LooseHalf*>(p) =
        __builtin_convertvector(upper, typename SimdTypes<L>::Half);
}
#ifdef __AVX512F__
template <>
inline void store_exact<16>(uint16_t* p, const Vector<16>& v) {
  const __m512i odd = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x1f001d, 0x1b0019, 0x170015, 0x130011, 0xf000d, 0xb0009,
                                       0x70005, 0x30001);
  const __m512i halves = _mm512_maskz_permutexvar_epi16(0xffffffff, odd, __builtin_bit_cast(__m512i, v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_extracti64x4_epi64(0xf, halves, 0));
}
#endif

// Rounds as core/bf16.h: to nearest, ties to even; NaN stays NaN.
template <int L>
inline void store(uint16_t* p, const Vector<L>& v) {
  using Bits = typename SimdTypes<L>::Bits;
  const Bits bits = __builtin_bit_cast(Bits, v);
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto magnitude = __builtin_bit_cast(typename SimdTypes<L>::Signed, bits & 0x7fffffffu);
  const Bits kept = magnitude > 0x7f800000 ? (bits | 0x400000u) : rounded;
  store_exact<L>(p, __builtin_bit_cast(Vector<L>, kept));
}
#ifdef __AVX512BF16__
template <>
inline void store<16>(uint16_t* p, const Vector<16>& v) {  // subnormal numbers become 0
  const __m256bh rounded = _mm512_cvtneps_pbh(__builtin_bit_cast(__m512, v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), __builtin_bit_cast(__m256i, rounded));
}
#elif defined(__AVX512F__)
template <>
inline void store<16>(uint16_t* p, const Vector<16>& v) {
  const __m512i bits = __builtin_bit_cast(__m512i, v);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __mmask16 nan = _mm512_cmp_ps_mask(__builtin_bit_cast(__m512, v), __builtin_bit_cast(__m512, v), _CMP_UNORD_Q);
  __m512i kept = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  kept = _mm512_mask_add_epi32(kept, odd, kept, _mm512_set1_epi32(1));
  kept = _mm512_mask_or_epi32(kept, nan, bits, _mm512_set1_epi32(0x400000));
  store_exact<16>(p, __builtin_bit_cast(Vector<16>, kept));
}
#endif

// Calls f(vector length, k) for the columns of a row: vectors of 16, then of 8, then single columns.
template <class F>
inline void each_column(long width, F&& f) {
  long k = 0;
  for (; k + 16 <= width; k += 16) f(std::integral_constant<int, 16>{}, k);
  if (k + 8 <= width) {
    f(std::integral_constant<int, 8>{}, k);
    k += 8;
  }
  for (; k < width; ++k) f(std::integral_constant<int, 1>{}, k);
}

// Calls f(vector length, first row, rows, k) for the column groups of each strip of rows. A strip has at most 1024
// values, so that it stays in the L1 cache, but at least `least` rows.
template <class F>
inline void each_strip(long rows, long width, long least, F&& f) {
  const long strip = width >= 1024 / least ? least : 1024 / width;
  for (long first = 0; first < rows; first += strip) {
    const long count = rows - first < strip ? rows - first : strip;
    each_column(width, [&](auto length, long k) { f(length, first, count, k); });
  }
}

}  // namespace
}  // namespace ddp
