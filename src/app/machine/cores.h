// The CPU cores of this process and its host, and how ranks share them. A value that the system does not give is empty.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

std::vector<int> cores_of_process();  // the CPU affinity
std::vector<int> cores_of_host();     // the cores of the control group; without one, all online cores

// The content of the cgroup file cpu.max: "max 100000" (no limit) or "150000 100000" (microseconds in each period). Of
// the groups of this process, that with the fewest cores. `system`: the root of the file system; another one in tests.
std::string cpu_limit_of_container(const std::filesystem::path& system = "/");

// The number of cores, at most `cores`, that the limit `cpu_max` allows at a time, rounded up.
int cores_within_limit(int cores, const std::string& cpu_max);

// `asked` threads if above 0, else this rank's share of `usable` cores, which `ranks` ranks use together; at least 1.
int share_of_cores(int asked, int usable, int ranks);

// Parses and writes the kernel's list format, such as "0-3,8".
std::vector<int> parse_list(const std::string& text);
std::string list_of(const std::vector<int>& numbers);

}  // namespace ddp
