#include "ops/cpu/simd/winograd.h"

namespace ddp {
namespace {

struct NumberBf16 {
  using Stored = uint16_t;
  static constexpr long kPair = 2;

  static __m512 widened(__m256i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16)); }
  static __m256i rounded(__m512 v) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)); }

  static __m512 load(const uint16_t* p) { return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static __m512 load(const uint16_t* p, __mmask16 mask) { return widened(_mm256_maskz_loadu_epi16(mask, p)); }
  static void store(uint16_t* p, __m512 v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded(v)); }
  static void store_words(uint32_t* p, __m512 low, __m512 high) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
    _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, both));
  }
  static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

const WinogradKernels kWinogradBf16 = Winograd<NumberBf16, TilesOf2, TilesOf4>::kTable;
const WeightKernels kDirectWeights1Bf16 = WeightProducts<NumberBf16, SingleOutputs<1>>::kTable;
const WeightKernels kDirectWeights3Bf16 = WeightProducts<NumberBf16, SingleOutputs<3>>::kTable;

}  // namespace ddp
