// The CPU backend: oneDNN, and our own kernels where it is poor.
#pragma once

#include "device/device.h"
#include "ops/ops.h"

#include <memory>

namespace ddp {

// `threads`: how many threads of this rank compute; 1 starts none. The device outlives the Ops.
std::unique_ptr<Ops> make_cpu_ops(Device& device, int threads);

}  // namespace ddp
