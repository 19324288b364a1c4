#include "ops/cpu/simd/amx_outputs.h"
#include "ops/cpu/simd/amx_weights.h"

namespace ddp {

const WeightKernels kAmxWeights1 = AmxWeights<1>::kTable;
const WeightKernels kAmxWeights3 = AmxWeights<3>::kTable;

// multiply() computes 2 * kSide tiles at a time.
constexpr long kBlockTiles = 64;
static_assert(kBlockTiles % (2 * kSide) == 0);

static constexpr PassKernels outputs_of(void (*pack)(const TileWeights&)) {
  return {.tile = 1,
          .products = 9,
          .weights = 9,
          .pair = 2,
          .least_block = kBlockTiles,
          .pack = pack,
          .transform_inputs = AmxOutputs::transform_inputs,
          .multiply = AmxOutputs::multiply,
          .write_outputs = AmxOutputs::write_outputs};
}

const TileKernels kAmx3 = {.stride = 1,
                           .forward = outputs_of(AmxOutputs::pack),
                           .input_gradient = outputs_of(AmxOutputs::pack_transposed),
                           .weights = AmxWeights<3>::kTable};

}  // namespace ddp
