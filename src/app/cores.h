// The cores that this process and its host have, and how ranks share them. What the system does not tell is empty.
#pragma once

#include <string>
#include <vector>

namespace ddp {

std::vector<int> cores_of_process();  // by its affinity
std::vector<int> cores_of_host();     // of its control group, else all that are online

// What the kernel's cgroup file cpu.max says: "max 100000", or "150000 100000" (microseconds in each period).
std::string cpu_limit_of_container();

// Of `cores`, those that such a limit leaves, rounded up.
int cores_within_limit(int cores, const std::string& cpu_max);

// `asked` threads; where that is 0, a share of the `usable` cores that `ranks` have in common.
int share_of_cores(int asked, int usable, int ranks);

// "0-3,8", as the kernel writes it, and back.
std::vector<int> parse_list(const std::string& text);
std::string list_of(const std::vector<int>& numbers);

}  // namespace ddp
