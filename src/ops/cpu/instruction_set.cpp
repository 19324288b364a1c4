#include "ops/cpu/instruction_set.h"

#include "core/error.h"
#include "ops/cpu/simd/kernels.h"

#ifdef DDP_X86_KERNELS
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ddp {

namespace base {
extern const Kernels kKernels;
}
namespace v3 {
extern const Kernels kKernels;
}
namespace v4 {
extern const Kernels kKernels;
}

const char* name_of(InstructionSet set) {
  return set == InstructionSet::v4 ? "v4" : set == InstructionSet::v3 ? "v3" : "base";
}

void require_instruction_set(InstructionSet set, InstructionSet best) {
  require(set <= best, Exit::device, "--cpu-isa {}: this processor has {} at most; use --cpu-isa {} or auto",
          name_of(set), name_of(best), name_of(best));
}

#ifdef DDP_X86_KERNELS
InstructionSet best_instruction_set() {
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

// Linux gives the state of the tiles to a process that asks for it.
bool has_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = [] {
    constexpr unsigned kBf16Bit = 1U << 22, kTileBit = 1U << 24;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
    return (edx & kBf16Bit) && (edx & kTileBit) && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
}

const Kernels& kernels_of(InstructionSet set) {
  require_instruction_set(set, best_instruction_set());
  switch (set) {
    case InstructionSet::v4: return v4::kKernels;
    case InstructionSet::v3: return v3::kKernels;
    case InstructionSet::base: break;
  }
  return base::kKernels;
}
#else
bool has_amx() { return false; }

InstructionSet best_instruction_set() { return InstructionSet::base; }

const Kernels& kernels_of(InstructionSet set) {
  require_instruction_set(set, best_instruction_set());
  return base::kKernels;
}
#endif

const ActivationKernels& Kernels::activations(DType type) const { return type == DType::bf16 ? bf16 : f32; }

const LaneKernels& Kernels::lanes(int count) const {
  DDP_EXPECT(count == 8 || count == 16);
  return count == 16 ? lanes16 : lanes8;
}

}  // namespace ddp
