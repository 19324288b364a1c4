// Questions to the operating system; what it does not tell is empty.
#pragma once

#include "app/doctor/facts.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::doctor {

std::vector<int> cores_of_process();  // by its affinity
std::vector<int> cores_of_host();     // of its control group, else all that are online
std::string cpu_limit_of_container();
SharedMemory shared_memory(const Environment& environment);
int64_t locked_memory_limit();  // bytes; -1: none
bool has_rdma();
bool is_container();
int nvidia_devices_on_bus();
std::vector<Interface> network_interfaces();

// "0-3,8" as the kernel writes it.
std::vector<int> parse_list(const std::string& text);

}  // namespace ddp::doctor
