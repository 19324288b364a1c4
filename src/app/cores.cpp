#include "app/cores.h"

#include "app/control_group.h"
#include "core/first_line.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

namespace ddp {
namespace {

// The own group's value, or that of the nearest group above it. Empty: no such file.
std::string from_group(const std::string& controller, const char* name, const char* old_name) {
  const auto values = group_values(controller, name, old_name);
  return values.empty() ? "" : values.front();
}

}  // namespace

std::vector<int> parse_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');) {
    int first = 0, last = 0;
    const char* const end = item.data() + item.size();
    const auto [rest, error] = std::from_chars(item.data(), end, first);
    if (error != std::errc()) continue;
    if (rest == end || *rest != '-' || std::from_chars(rest + 1, end, last).ec != std::errc()) last = first;
    for (int number = first; number <= last && numbers.size() < CPU_SETSIZE; ++number) numbers.push_back(number);
  }
  return numbers;
}

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end > i + 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> cores_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

std::vector<int> cores_of_host() {
  const std::string group = from_group("cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus");
  return parse_list(group.empty() ? first_line("/sys/devices/system/cpu/online") : group);
}

std::string cpu_limit_of_container() {
  const std::string limit = from_group("cpu", "cpu.max", "cpu.cfs_quota_us");
  if (limit.empty() || limit.find(' ') != std::string::npos) return limit;
  return limit + " " + from_group("cpu", "cpu.max", "cpu.cfs_period_us");
}

int cores_within_limit(int cores, const std::string& cpu_max) {
  double quota = 0, period = 0;
  if (!(std::istringstream(cpu_max) >> quota >> period) || quota <= 0 || period <= 0) return cores;
  return std::clamp(static_cast<int>(std::ceil(std::min(quota / period, 1e6))), 1, cores);
}

int share_of_cores(int asked, int usable, int ranks) { return asked > 0 ? asked : std::max(1, usable / ranks); }

}  // namespace ddp
