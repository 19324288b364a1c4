#include "app/doctor/system.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

namespace ddp::doctor {
namespace fs = std::filesystem;

namespace {

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The file of this process's control group, of either version of the kernel's interface.
std::string from_group(const std::string& controller, const char* name, const char* old_name) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "0::/a/b" or "3:cpuset:/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    const bool old = ("," + controllers + ",").find("," + controller + ",") != std::string::npos;
    if (!old && !controllers.empty()) continue;
    const fs::path root = old ? fs::path("/sys/fs/cgroup") / controller : fs::path("/sys/fs/cgroup");
    for (const std::string& folder : {path, std::string("/")})
      if (const std::string text = line_of(root.string() + folder + "/" + (old ? old_name : name)); !text.empty())
        return text;
  }
  return "";
}

const char* or_default(const Environment& environment, const char* variable, const char* otherwise) {
  const auto found = environment.find(variable);
  return found == environment.end() || found->second.empty() ? otherwise : found->second.c_str();
}

int bits_in(const sockaddr* mask, size_t offset, size_t bytes) {
  int bits = 0;
  const auto* const at = reinterpret_cast<const unsigned char*>(mask) + offset;
  for (size_t i = 0; mask && i < bytes; ++i) bits += std::popcount(at[i]);
  return bits;
}

std::string address_of(const ifaddrs& entry) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto* const address = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    return fmt::format("{}/{}", text.data(), bits_in(entry.ifa_netmask, offsetof(sockaddr_in, sin_addr), 4));
  }
  const auto* const address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
  if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) return "";
  inet_ntop(AF_INET6, &address->sin6_addr, text.data(), text.size());
  return fmt::format("{}/{}", text.data(), bits_in(entry.ifa_netmask, offsetof(sockaddr_in6, sin6_addr), 16));
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
  return parse_list(group.empty() ? line_of("/sys/devices/system/cpu/online") : group);
}

std::string cpu_limit_of_container() {
  const std::string limit = from_group("cpu", "cpu.max", "cpu.cfs_quota_us");
  if (limit.empty() || limit.find(' ') != std::string::npos) return limit;
  return limit + " " + from_group("cpu", "cpu.max", "cpu.cfs_period_us");
}

SharedMemory shared_memory(const Environment& environment) {
  SharedMemory memory{.folder = or_default(environment, "OMPI_MCA_btl_vader_backing_directory", "/dev/shm")};
  memory.per_rank = std::atoll(or_default(environment, "OMPI_MCA_btl_vader_segment_size", "4194304"));
  struct statvfs status {};
  if (statvfs(memory.folder.c_str(), &status) != 0) return memory;
  memory.usable = access(memory.folder.c_str(), W_OK | X_OK) == 0;
  memory.bytes = static_cast<int64_t>(status.f_blocks * status.f_frsize);
  memory.free = static_cast<int64_t>(status.f_bavail * status.f_frsize);
  return memory;
}

int64_t locked_memory_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_cur);
}

bool has_rdma() {
  std::error_code error;
  const fs::directory_iterator adapters("/sys/class/infiniband", error);
  return !error && adapters != fs::directory_iterator();
}

bool is_container() {
  std::error_code error;
  return fs::exists("/.dockerenv", error) || fs::exists("/run/.containerenv", error);
}

int nvidia_devices_on_bus() {
  int count = 0;
  std::error_code error;
  for (const auto& device : fs::directory_iterator("/sys/bus/pci/devices", error))
    if (line_of(device.path() / "vendor") == "0x10de" && line_of(device.path() / "class").starts_with("0x03")) ++count;
  return count;
}

std::vector<Interface> network_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, freeifaddrs);
  std::map<std::string, Interface> by_name;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    Interface& interface = by_name[entry->ifa_name];
    interface.name = entry->ifa_name;
    interface.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    if (const std::string address = address_of(*entry); !address.empty()) interface.addresses.push_back(address);
  }
  std::vector<Interface> interfaces;
  for (const auto& [name, interface] : by_name) interfaces.push_back(interface);
  return interfaces;
}

}  // namespace ddp::doctor
