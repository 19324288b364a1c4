#include "app/commands/doctor/system.h"

#include "core/first_line.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

namespace ddp::doctor {
namespace fs = std::filesystem;

namespace {

std::string or_default(const Environment& environment, const char* variable, const char* otherwise) {
  const std::string value = value_in(environment, variable);
  return value.empty() ? otherwise : value;
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

SharedMemory shared_memory(const Environment& environment) {
  SharedMemory memory{.folder = or_default(environment, "OMPI_MCA_btl_vader_backing_directory", "/dev/shm")};
  memory.per_rank = std::atoll(or_default(environment, "OMPI_MCA_btl_vader_segment_size", "4194304").c_str());
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
    if (first_line(device.path() / "vendor") == "0x10de" && first_line(device.path() / "class").starts_with("0x03"))
      ++count;
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
