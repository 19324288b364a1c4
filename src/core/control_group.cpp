#include "core/control_group.h"

#include "core/first_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace ddp {
namespace fs = std::filesystem;

std::vector<std::string> group_values(const std::string& controller, const char* name, const char* old_name,
                                      const fs::path& system) {
  std::vector<std::string> values;
  std::ifstream groups(system / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "3:cpuset:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool old = ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (!old && !controllers.empty()) continue;
    const fs::path root = system / (old ? "sys/fs/cgroup/" + controller : "sys/fs/cgroup");
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      const std::string value = first_line(root / group / (old ? old_name : name));
      if (!value.empty()) values.push_back(value);
      if (group.empty()) break;
    }
  }
  return values;
}

int64_t memory_limit(const fs::path& system) {
  int64_t limit = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const std::string& value : group_values("memory", "memory.max", "memory.limit_in_bytes", system))
    if (const int64_t bytes = std::strtoll(value.c_str(), nullptr, 10); bytes > 0)  // "max" is 0
      limit = std::min(limit, bytes);
  return limit;
}

}  // namespace ddp
