#include "ops/cpu/stream_kernels.inc"

namespace ddp {
extern const StreamKernels kStreamKernelsV4;
const StreamKernels kStreamKernelsV4 = kKernels;
}  // namespace ddp
