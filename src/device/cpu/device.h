// The CPU as a device: work runs at once in the caller's thread, so ordering and synchronisation do nothing.
#pragma once

#include "device/device.h"

#include <memory>

namespace ddp {

std::unique_ptr<Device> make_cpu_device();

// Allocates from `memory`, which outlives the device.
std::unique_ptr<Device> make_cpu_device(Memory& memory);

}  // namespace ddp
