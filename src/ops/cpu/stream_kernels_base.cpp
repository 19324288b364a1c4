#include "ops/cpu/stream_kernels.inc"

namespace ddp {
extern const StreamKernels kStreamKernelsBase;
const StreamKernels kStreamKernelsBase = kKernels;
}  // namespace ddp
