// Questions to the operating system; what it does not tell is empty.
#pragma once

#include "app/doctor/facts.h"

#include <cstdint>
#include <vector>

namespace ddp::doctor {

SharedMemory shared_memory(const Environment& environment);
int64_t locked_memory_limit();  // bytes; -1: none
bool has_rdma();
bool is_container();
int nvidia_devices_on_bus();
std::vector<Interface> network_interfaces();

}  // namespace ddp::doctor
