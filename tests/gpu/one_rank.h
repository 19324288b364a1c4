// The only rank of a world, on the CPU and on a GPU in fp32.
#pragma once

#include "comm/local/communicator.h"
#include "comm/nccl/communicator.h"
#include "ops/cpu/ops.h"
#include "tests/gpu/fixture.h"

#include <algorithm>
#include <memory>
#include <thread>

namespace ddp::testing {

inline int cpu_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u)); }

struct OnCpu {
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = make_cpu_ops(*device, {.threads = cpu_threads(), .winograd = false});
  std::unique_ptr<Communicator> communicator = std::move(make_local_communicators(1)[0]);
};

struct OnOneGpu {
  explicit OnOneGpu(bool graphs = true, bool deterministic = true)
      : device(make_cuda_device({.graphs = graphs})),
        ops(make_cuda_ops(*device, {.precision = Precision::fp32, .deterministic = deterministic})),
        communicator(make_nccl_communicator(*device, *host, {.deterministic = deterministic})) {}

  std::unique_ptr<Communicator> host = std::move(make_local_communicators(1)[0]);
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Communicator> communicator;
};

}  // namespace ddp::testing
