#include "core/control_group.h"

#include "core/first_line.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace ddp {
namespace fs = std::filesystem;

namespace {

struct Group {
  fs::path folder;
  bool old;  // of cgroup v1
};

std::vector<Group> groups_of(const std::string& controller, const fs::path& system) {
  std::vector<Group> found;
  std::ifstream groups(system / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "3:cpuset:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool old = ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (!old && !controllers.empty()) continue;
    const fs::path root = system / (old ? "sys/fs/cgroup/" + controller : "sys/fs/cgroup");
    for (fs::path group = fs::path(line.substr(second + 1)).relative_path();; group = group.parent_path()) {
      found.push_back({root / group, old});
      if (group.empty()) break;
    }
  }
  return found;
}

int64_t number_in(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

// The number behind `name` in a file of names and numbers; 0 without one.
int64_t entry_of(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (word == name && file >> word) return number_in(word);
  return 0;
}

int64_t left_by_limit(int resource, int64_t used) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(limit.rlim_cur) - used;
}

}  // namespace

std::vector<std::string> group_values(const std::string& controller, const char* name, const char* old_name,
                                      const fs::path& system) {
  std::vector<std::string> values;
  for (const auto& [folder, old] : groups_of(controller, system)) {
    const std::string value = first_line(folder / (old ? old_name : name));
    if (!value.empty()) values.push_back(value);
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

int64_t available_memory(int processes, const fs::path& system) {
  constexpr int64_t kKiB = 1024;
  int64_t shared = entry_of(system / "proc/meminfo", "MemAvailable:") * kKiB;
  if (shared <= 0) shared = int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);  // /proc is hidden
  for (const auto& [folder, old] : groups_of("memory", system)) {
    const int64_t limit = number_in(first_line(folder / (old ? "memory.limit_in_bytes" : "memory.max")));
    if (limit <= 0) continue;  // "max" is 0
    const int64_t used = number_in(first_line(folder / (old ? "memory.usage_in_bytes" : "memory.current")));
    const int64_t files = entry_of(folder / "memory.stat", old ? "total_inactive_file" : "inactive_file");
    shared = std::min(shared, limit - used + files);
  }
  const fs::path status = system / "proc/self/status";
  const int64_t own = std::min(left_by_limit(RLIMIT_AS, entry_of(status, "VmSize:") * kKiB),
                               left_by_limit(RLIMIT_DATA, entry_of(status, "VmData:") * kKiB));
  return std::max<int64_t>(0, std::min(shared / processes, own));
}

}  // namespace ddp
