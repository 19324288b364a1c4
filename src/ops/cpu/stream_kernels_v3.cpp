#include "ops/cpu/stream_kernels.inc"

namespace ddp {
extern const StreamKernels kStreamKernelsV3;
const StreamKernels kStreamKernelsV3 = kKernels;
}  // namespace ddp
