#include "core/error.h"
#include "ops/cpu/cpu_ops.h"

#include <omp.h>

namespace ddp {

CpuOps::CpuOps(Device& device, const CpuOpsConfig& config)
    : workers_{device, config.threads},
      activations_(config.precision == Precision::bf16 ? DType::bf16 : DType::f32),
      conv_supported_(activations_ == DType::f32 || dnnl_offers_bf16()),
      dnnl_{activations_, config.winograd, std::make_shared<Scratch>(device)} {
  require(config.threads >= 1, Exit::usage, "{} compute threads: use at least 1", config.threads);
  require(config.precision != Precision::tf32, Exit::usage, "the CPU supports fp32 and bf16, but not tf32");
  omp_set_num_threads(config.threads);
}

std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config) {
  return std::make_unique<CpuOps>(device, config);
}

}  // namespace ddp
