// The GPU that belongs to this rank. Where CUDA is not built, a twin is linked that throws Error(Exit::device).
#pragma once

#include "device/device.h"

#include <memory>

namespace ddp {

std::unique_ptr<Device> make_cuda_device(int local_rank);

}  // namespace ddp
