// Collectives of device memory over a communicator of host memory: each span is copied to the host, reduced there, and
// copied back. Use: GPUs without NCCL, and a reference for tests of NCCL.
#pragma once

#include "comm/communicator.h"
#include "device/device.h"

#include <memory>

namespace ddp {

// The copy to the host starts with the collective. The copy back starts in wait(), which blocks the host until the host
// collective is done. `host` and the device must outlive the result. The communicator uses the kStagedFences fence
// slots of the device that start at `fences`.
constexpr int kStagedFences = 8;
std::unique_ptr<Communicator> make_staged_communicator(Device& device, Communicator& host, int fences);

}  // namespace ddp
