#include "ops/cpu/simd/bf16.h"
#include "ops/cpu/simd/f32.h"
#include "ops/cpu/simd/winograd.h"

namespace ddp {

const TileKernels kTiles2Bf16 = tile_kernels<NumberBf16, TilesOf2, TilesOf4>();
const TileKernels kStrided2Bf16 = strided_kernels<NumberBf16, ThreePoints, 2, StridedTiles<FivePoints, 4>>();
const TileKernels kTiles7Rounded = tile_kernels<NumberWide, TilesOf7, TilesOf7>();
const WeightKernels kDirectWeights1Bf16 = WeightProducts<NumberBf16, SingleOutputs<1>>::kTable;
const WeightKernels kDirectWeights3Bf16 = WeightProducts<NumberBf16, SingleOutputs<3>>::kTable;

}  // namespace ddp
