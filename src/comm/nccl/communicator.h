// NCCL over the GPUs of the ranks. Where CUDA is not built, a twin is linked that throws Error(Exit::device).
#pragma once

#include "comm/communicator.h"
#include "device/device.h"

#include <memory>

namespace ddp {

// `host` shares the unique id and serves host sums; it and the device outlive the result. Collective over `host`.
std::unique_ptr<Communicator> make_nccl_communicator(Device& device, Communicator& host);

}  // namespace ddp
