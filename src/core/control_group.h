// The limits of this process's control group, in cgroup v2 or v1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

// The first lines of a file of the control group of this process and of the groups above it, the own group first. The
// file is `name` in cgroup v2, `old_name` in v1, where `controller` has folders of its own. A group without the file is
// left out. In a container the groups above its own are not seen. `system`: the root of the file system; another one in
// tests.
std::vector<std::string> group_values(const std::string& controller, const char* name, const char* old_name,
                                      const std::filesystem::path& system = "/");

// How much memory the processes of this control group may use together, in bytes: the least limit of the groups, else
// the memory of the machine.
int64_t memory_limit(const std::filesystem::path& system = "/");

// How much memory this process can still take, in bytes, at least 0: its share of what the machine has available and of
// what the limit of each group leaves, and all that its own limits leave (ulimit -v and -d). The kernel gives the
// memory of inactive files back, so a group does not use it. `processes`: how many share machine and groups.
int64_t available_memory(int processes, const std::filesystem::path& system = "/");

}  // namespace ddp
