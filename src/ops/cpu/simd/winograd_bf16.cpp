#include "ops/cpu/simd/bf16.h"
#include "ops/cpu/simd/winograd.h"

namespace ddp {

const WinogradKernels kWinogradBf16 = Winograd<NumberBf16, TilesOf2, TilesOf4>::kTable;
const WeightKernels kDirectWeights1Bf16 = WeightProducts<NumberBf16, SingleOutputs<1>>::kTable;
const WeightKernels kDirectWeights3Bf16 = WeightProducts<NumberBf16, SingleOutputs<3>>::kTable;

}  // namespace ddp
