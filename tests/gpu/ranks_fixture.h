// Ranks under mpirun that share the GPUs of this host and use the tested transport.
#pragma once

#include "comm/local/communicator.h"
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "tests/gpu/fixture.h"
#include "tests/mpi_session.h"
#include "train/step/fences.h"

#include <string>

namespace ddp::testing {

enum class Transport { nccl, nccl_without_graphs, mpi };

constexpr Transport kTransports[] = {Transport::nccl, Transport::nccl_without_graphs, Transport::mpi};

inline std::string name_of(Transport transport) {
  return transport == Transport::nccl ? "nccl" : transport == Transport::mpi ? "mpi" : "nccl_without_graphs";
}

inline std::unique_ptr<Communicator> over_nccl(Device& device, Communicator& host) {
  const NcclConfig config{.deterministic = true, .share_gpu = true};
  set_nccl_variables(config, session().rank());
  return make_nccl_communicator(device, host, config);
}

// This rank. It selects engines without timing, so all ranks select the same engines.
struct RankOnGpu {
  explicit RankOnGpu(Transport transport)
      : device(make_cuda_device({.index = index(), .graphs = transport != Transport::nccl_without_graphs})),
        ops(make_cuda_ops(*device, {.precision = Precision::fp32, .deterministic = true})),
        communicator(transport == Transport::mpi ? make_staged_communicator(*device, *host, kTransportFences)
                                                 : over_nccl(*device, *host)) {}

  static int index() {
    std::string why;
    const int gpus = count_cuda_devices(why);
    require(gpus > 0, Exit::device, "{}", why);
    return session().local_rank() % gpus;
  }

  std::unique_ptr<Communicator> host = session().world(Allreduce::automatic);
  std::unique_ptr<Device> device;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Communicator> communicator;
};

}  // namespace ddp::testing
