#include "app/commands/doctor/facts.h"

#include "app/commands/doctor/system.h"
#include "app/machine/cores.h"
#include "comm/nccl/communicator.h"
#include "device/cuda/device.h"
#include "device/cuda/device_query.h"
#include "ops/cuda/ops.h"

#include <exception>

namespace ddp::doctor {
namespace {

// The variables that checks use.
Environment of_interest(const Environment& all) {
  Environment some;
  for (const auto& [name, value] : all)
    if (name.starts_with("NCCL_") || name.starts_with("OMPI_MCA_btl_") || name.starts_with("OMPI_MCA_oob_") ||
        name == "SLURM_JOB_ID")
      some.emplace(name, value);
  return some;
}

GpuFacts facts_of_gpu(int local_rank) {
  GpuFacts gpu;
  gpu.visible = count_cuda_devices(gpu.why);
  gpu.driver = cuda_driver_version();
  for (const auto& libraries : {cuda_device_libraries(), cuda_ops_libraries(), nccl_libraries()})
    gpu.libraries.insert(gpu.libraries.end(), libraries.begin(), libraries.end());
  if (gpu.visible == 0) return gpu;
  const int index = local_rank % gpu.visible;
  try {
    const CudaDeviceInfo info = cuda_device_info(index);
    gpu.name = info.name;
    gpu.bus_id = info.bus_id;
    gpu.uuid = info.uuid;
    gpu.out_of_reach = unreachable_cuda_peers(index);
  } catch (const std::exception& e) {
    gpu.visible = 0;
    gpu.why = e.what();
  }
  return gpu;
}

}  // namespace

HostFacts facts_of_host(const Environment& environment) {
  return {.cores = cores_of_host(),
          .cpu_max = cpu_limit_of_container(),
          .memory = shared_memory(environment),
          .locked_memory = locked_memory_limit(),
          .rdma = has_rdma(),
          .container = is_container(),
          .nvidia_devices = nvidia_devices_on_bus(),
          .interfaces = network_interfaces()};
}

RankFacts facts_of_rank(int threads, const std::string& host, int local_rank, bool gpus) {
  const Environment environment = environment_of_process();
  return {.host = host,
          .local_rank = local_rank,
          .threads = threads,
          .cores = cores_of_process(),
          .environment = of_interest(environment),
          .here = local_rank == 0 ? facts_of_host(environment) : HostFacts{},
          .gpu = gpus ? facts_of_gpu(local_rank) : GpuFacts{}};
}

}  // namespace ddp::doctor
