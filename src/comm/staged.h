// Collectives of device memory over a communicator that knows host memory only: spans are copied to the host, summed
// there, and copied back. For GPUs where NCCL cannot be used, and as a judge of NCCL.
#pragma once

#include "comm/communicator.h"
#include "device/device.h"

#include <memory>

namespace ddp {

// Copies to the host start with the collective, those back in wait(), which blocks the host until what it waits for has
// been summed. `host` and the device outlive the result. `fences`: the first of kStagedFences fence slots of the device
// that it may use.
constexpr int kStagedFences = 8;
std::unique_ptr<Communicator> make_staged_communicator(Device& device, Communicator& host, int fences);

}  // namespace ddp
