#include "ops/cpu/simd/vectors.h"
#include "ops/cpu/simd/winograd.h"

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

// bf16 in memory, products of f32.
struct NumberWide : NumberF32 {
  using Stored = uint16_t;
  using NumberF32::store;

  static __m512 load(const uint16_t* p) { return ddp::load<16>(p); }
  static __m512 load(const uint16_t* p, __mmask16 mask) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p)), 16));
  }
  static void store(uint16_t* p, __m512 v) { ddp::store<16>(p, v); }
};

}  // namespace

const TileKernels kTiles4F32 = tile_kernels<NumberF32, TilesOf4, TilesOf4>();
const TileKernels kTiles7F32 = tile_kernels<NumberF32, TilesOf7, TilesOf7>();
const TileKernels kStrided4F32 = strided_kernels<NumberF32, FivePoints, 4>();
const TileKernels kStrided7F32 = strided_kernels<NumberF32, EightPoints, 7>();
const TileKernels kStrided4Wide = strided_kernels<NumberWide, FivePoints, 4>();
const TileKernels kStrided7Wide = strided_kernels<NumberWide, EightPoints, 7>();
const TileKernels kTiles4Wide = tile_kernels<NumberWide, TilesOf4, TilesOf4>();
const TileKernels kTiles7Wide = tile_kernels<NumberWide, TilesOf7, TilesOf7>();
const WeightKernels kDirectWeights1F32 = WeightProducts<NumberF32, SingleOutputs<1>>::kTable;
const WeightKernels kDirectWeights3F32 = WeightProducts<NumberF32, SingleOutputs<3>>::kTable;
const WeightKernels kDirectWeights1Wide = WeightProducts<NumberWide, SingleOutputs<1>>::kTable;
const WeightKernels kDirectWeights3Wide = WeightProducts<NumberWide, SingleOutputs<3>>::kTable;

}  // namespace ddp
