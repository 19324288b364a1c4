// A communicator over NCCL: each rank has a GPU. In a build without CUDA (no_nccl.cpp) all functions throw
// Error(Exit::device), except nccl_libraries().
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
  bool ring = false;                   // ring algorithm only; false: NCCL chooses
  bool deterministic = false;          // same bits on every run
  bool split = false;                  // the communicator will be split, and the parts communicate beside each other
  bool share_gpu = false;              // several ranks may share a GPU, for tests: slow, over sockets
  std::chrono::seconds deadline{120};  // time limit of the initialisation of all ranks, and of each NCCL call
};

// Sets the NCCL_ environment variables that `config` needs. Call it before the first use of NCCL. Throws
// Error(Exit::usage) if a variable that the user has set conflicts with `config`.
void set_nccl_variables(const NcclConfig& config, int rank);

// Collective over `host`, which broadcasts the unique id and serves host sums; `host` and the device must outlive the
// result. Throws Error(Exit::communication) with NCCL's text and what to do.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Communicator& host, const NcclConfig& config);

// The NCCL version and the NCCL_ variables that are set, for the user: "NCCL 2.28.9, NCCL_ALGO=Ring".
std::string describe_nccl();

// The version of NCCL; empty in a build without CUDA.
std::vector<LibraryVersion> nccl_libraries();

}  // namespace ddp
