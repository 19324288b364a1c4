// NCCL over the GPUs of the ranks. Where CUDA is not built, a twin is linked that throws Error(Exit::device).
#pragma once

#include "comm/communicator.h"
#include "core/library_version.h"
#include "device/device.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

struct NcclConfig {
  bool ring = false;                   // only rings; else NCCL chooses
  bool deterministic = false;          // the same bits on every run
  bool share_gpu = false;              // several ranks may have one GPU, for tests: slow, over sockets
  std::chrono::seconds deadline{120};  // for all ranks to come together, and for any one call of NCCL
};

// Sets the NCCL_ variables that the configuration asks for, before NCCL is first used. Throws Error(Exit::usage) where
// one that the user has set contradicts it.
void set_nccl_variables(const NcclConfig& config, int rank);

// `host` shares the unique id and serves host sums; it and the device outlive the result. Collective over `host`.
// Throws Error(Exit::communication) with NCCL's own text and what to do.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Communicator& host, const NcclConfig& config);

// What the user should see of NCCL: its version, and the NCCL_ variables that are set, such as
// "NCCL 2.28.9, NCCL_ALGO=Ring".
std::string describe_nccl();

// Of NCCL; none where CUDA is not built.
std::vector<LibraryVersion> nccl_libraries();

}  // namespace ddp
