#include "core/error.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/dnnl.h"

#include <omp.h>

namespace ddp {

CpuOps::CpuOps(Device& device, const CpuOpsConfig& config)
    : workers_{device, config.threads, config.instruction_set},
      activations_(config.precision == Precision::bf16 ? DType::bf16 : DType::f32),
      slice_bytes_(config.slice_bytes),
      dnnl_{activations_, config.winograd, std::make_shared<Scratch>(device), config.amx,
            must_widen(workers_, activations_)},
      chooser_(config.measuring) {
  require(config.threads >= 1, Exit::usage, "{} compute threads: use at least 1", config.threads);
  require(config.precision != Precision::tf32, Exit::usage, "the CPU supports fp32 and bf16, but not tf32");
  omp_set_num_threads(config.threads);
}

std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config) {
  return std::make_unique<CpuOps>(device, config);
}

void limit_dnnl(InstructionSet set) {
  require_instruction_set(set, best_instruction_set());
  if (set == InstructionSet::v4) return;
  const auto status = dnnl::set_max_cpu_isa(set == InstructionSet::v3 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::avx);
  require(status == dnnl::status::success, Exit::device, "oneDNN cannot be limited to --cpu-isa {}; use auto",
          name_of(set));
}

std::string describe_cpu_ops() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace ddp
