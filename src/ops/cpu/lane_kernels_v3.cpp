namespace {
constexpr int kMaxPixels = 2, kMaxTaps = 2;
}
#include "ops/cpu/lane_kernels.inc"

namespace ddp {
extern const LaneKernels kLaneKernelsV3x8;
const LaneKernels kLaneKernelsV3x8 = kKernels<8>;
}  // namespace ddp
