namespace {
constexpr int kMaxPixels = 5, kMaxTaps = 5;
}
#include "ops/cpu/lane_kernels.inc"

namespace ddp {
extern const LaneKernels kLaneKernelsV4x8;
extern const LaneKernels kLaneKernelsV4x16;
const LaneKernels kLaneKernelsV4x8 = kKernels<8>;
const LaneKernels kLaneKernelsV4x16 = kKernels<16>;
}  // namespace ddp
