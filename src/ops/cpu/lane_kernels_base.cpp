namespace {
constexpr int kMaxPixels = 1, kMaxTaps = 1;
}
#include "ops/cpu/lane_kernels.inc"

namespace ddp {
extern const LaneKernels kLaneKernelsBase8;
const LaneKernels kLaneKernelsBase8 = kKernels<8>;
}  // namespace ddp
