#include "ops/cpu/lane_kernels.h"

#include "core/error.h"

namespace ddp {

extern const LaneKernels kLaneKernelsBase8;

#ifdef DDP_X86_KERNELS
extern const LaneKernels kLaneKernelsV3x8;
extern const LaneKernels kLaneKernelsV4x8;
extern const LaneKernels kLaneKernelsV4x16;

namespace {
bool has_v4() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
}  // namespace

int widest_lanes() { return has_v4() ? 16 : 8; }

const LaneKernels& lane_kernels(int lanes) {
  DDP_EXPECT(lanes == 8 || (lanes == 16 && has_v4()));
  if (lanes == 16) return kLaneKernelsV4x16;
  return has_v4() ? kLaneKernelsV4x8 : has_v3() ? kLaneKernelsV3x8 : kLaneKernelsBase8;
}
#else
int widest_lanes() { return 8; }

const LaneKernels& lane_kernels(int lanes) {
  DDP_EXPECT(lanes == 8);
  return kLaneKernelsBase8;
}
#endif

}  // namespace ddp
