// The CPU as a device: work runs in the caller's thread at once, so ordering and synchronisation are free.
#pragma once

#include "device/device.h"

#include <memory>

namespace ddp {

std::unique_ptr<Device> make_cpu_device();

}  // namespace ddp
