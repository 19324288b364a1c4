#include "ops/cpu/simd/amx_outputs.h"
#include "ops/cpu/simd/amx_weights.h"

namespace ddp {

const WeightKernels kAmxWeights1 = AmxWeights<1>::kTable;
const WeightKernels kAmxWeights3 = AmxWeights<3>::kTable;
const WinogradKernels kAmxOutputs3 = {.tile = 1,
                                      .products = 9,
                                      .pair = 2,
                                      .pack = AmxOutputs::pack,
                                      .pack_transposed = AmxOutputs::pack_transposed,
                                      .transform_inputs = AmxOutputs::transform_inputs,
                                      .multiply = AmxOutputs::multiply,
                                      .write_outputs = AmxOutputs::write_outputs,
                                      .weights = AmxWeights<3>::kTable};

}  // namespace ddp
