// The sets of x86-64: `base`, and `v3` with AVX2.
#include "data/resize_kernels.h"

namespace ddp {

namespace base {
extern const ResizeKernels kResizeKernels;
}
namespace v3 {
extern const ResizeKernels kResizeKernels;
}

const ResizeKernels* resize_kernels_of(int set) {
  if (set == 0) return &base::kResizeKernels;
  return set == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")
             ? &v3::kResizeKernels
             : nullptr;
}

const ResizeKernels& best_resize_kernels() {
  const ResizeKernels* v3 = resize_kernels_of(1);
  return v3 ? *v3 : base::kResizeKernels;
}

}  // namespace ddp
