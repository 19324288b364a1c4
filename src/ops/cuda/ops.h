// The GPU backend. Where CUDA is not built, a twin is linked that throws Error(Exit::device).
#pragma once

#include "device/device.h"
#include "ops/ops.h"

#include <memory>

namespace ddp {

std::unique_ptr<Ops> make_cuda_ops(Device& device);

}  // namespace ddp
