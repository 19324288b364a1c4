// Queries of the operating system. A value that it does not give is empty.
#pragma once

#include "app/commands/doctor/facts.h"

#include <cstdint>
#include <vector>

namespace ddp::doctor {

SharedMemory shared_memory(const Environment& environment);
int64_t locked_memory_limit();  // in bytes; -1: no limit
bool has_rdma();
bool is_container();
int nvidia_devices_on_bus();
std::vector<Interface> network_interfaces();

}  // namespace ddp::doctor
