#include "ops/cpu/instruction_set.h"

namespace ddp {

#ifdef DDP_X86_KERNELS
InstructionSet instruction_set() {
  const auto has_v4 = [] {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
  };
  const auto has_v3 = [] {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
  };
  return has_v4() ? InstructionSet::v4 : has_v3() ? InstructionSet::v3 : InstructionSet::base;
}
#else
InstructionSet instruction_set() { return InstructionSet::base; }
#endif

}  // namespace ddp
