#include "ops/cpu/lane_kernels.h"

#include "core/error.h"
#include "ops/cpu/instruction_set.h"

namespace ddp {

extern const LaneKernels kLaneKernelsBase8;

#ifdef DDP_X86_KERNELS
extern const LaneKernels kLaneKernelsV3x8;
extern const LaneKernels kLaneKernelsV4x8;
extern const LaneKernels kLaneKernelsV4x16;

int widest_lanes() { return instruction_set() == InstructionSet::v4 ? 16 : 8; }

const LaneKernels& lane_kernels(int lanes) {
  DDP_EXPECT(lanes == 8 || lanes == widest_lanes());
  if (lanes == 16) return kLaneKernelsV4x16;
  switch (instruction_set()) {
    case InstructionSet::v4: return kLaneKernelsV4x8;
    case InstructionSet::v3: return kLaneKernelsV3x8;
    case InstructionSet::base: break;
  }
  return kLaneKernelsBase8;
}
#else
int widest_lanes() { return 8; }

const LaneKernels& lane_kernels(int lanes) {
  DDP_EXPECT(lanes == 8);
  return kLaneKernelsBase8;
}
#endif

}  // namespace ddp
