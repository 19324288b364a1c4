#include "app/machine/cores.h"

#include "core/control_group.h"
#include "core/first_line.h"
#include "core/split.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>

namespace ddp {
namespace {

// Cores of a limit "quota period". Infinity: no limit.
double cores_of(const std::string& cpu_max) {
  double quota = 0, period = 0;
  const bool limited = (std::istringstream(cpu_max) >> quota >> period) && quota > 0 && period > 0;
  return limited ? quota / period : std::numeric_limits<double>::infinity();
}

}  // namespace

std::vector<int> parse_list(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& item : split(text, ',')) {
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
  const auto groups = group_values("cpuset", "cpuset.cpus.effective", "cpuset.effective_cpus");
  return parse_list(groups.empty() ? first_line("/sys/devices/system/cpu/online") : groups.front());
}

std::string cpu_limit_of_container(const std::filesystem::path& system) {
  std::vector<std::string> limits = group_values("cpu", "cpu.max", "cpu.cfs_quota_us", system);
  const auto periods = group_values("cpu", "cpu.max", "cpu.cfs_period_us", system);
  for (size_t i = 0; i < std::min(limits.size(), periods.size()); ++i)
    if (limits[i].find(' ') == std::string::npos) limits[i] += " " + periods[i];
  return limits.empty() ? "" : std::ranges::min(limits, {}, cores_of);
}

int cores_within_limit(int cores, const std::string& cpu_max) {
  return std::clamp(static_cast<int>(std::ceil(std::min(cores_of(cpu_max), 1e6))), 1, cores);
}

int share_of_cores(int asked, int usable, int ranks) { return asked > 0 ? asked : std::max(1, usable / ranks); }

}  // namespace ddp
