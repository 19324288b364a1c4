#include "ops/cpu/simd/f32.h"
#include "ops/cpu/simd/winograd.h"

namespace ddp {

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
