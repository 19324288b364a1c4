// Processors and builds with one set.
#include "data/resize_kernels.h"

namespace ddp {

namespace base {
extern const ResizeKernels kResizeKernels;
}

const ResizeKernels* resize_kernels_of(int set) { return set == 0 ? &base::kResizeKernels : nullptr; }

const ResizeKernels& best_resize_kernels() { return base::kResizeKernels; }

}  // namespace ddp
