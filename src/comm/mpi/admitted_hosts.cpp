#include "comm/mpi/admitted_hosts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

namespace ddp {
namespace {

using Words = std::vector<uint32_t>;  // an address: one word (IPv4) or four (IPv6)

constexpr uint32_t kSource4 = 12, kSource6 = 8;  // byte offset of the source address in the header

std::set<Words> parse(std::span<const std::string> addresses, int family, size_t words) {
  std::set<Words> parsed;
  for (const std::string& text : addresses) {
    Words address(words);
    if (inet_pton(family, text.c_str(), address.data()) != 1) continue;
    for (uint32_t& word : address) word = ntohl(word);
    parsed.insert(std::move(address));
  }
  return parsed;
}

// Keeps packets from these addresses. Empty: the filter would be too long.
std::vector<sock_filter> filter_for(const std::set<Words>& addresses, uint32_t offset) {
  const auto network = static_cast<uint32_t>(SKF_NET_OFF);
  std::vector<sock_filter> code;
  for (const Words& address : addresses) {
    for (size_t i = 0; i < address.size(); ++i) {
      const auto to_next_address = static_cast<uint8_t>(2 * (address.size() - 1 - i) + 1);  // instructions
      if (code.empty() || address.size() > 1)                                               // one word stays loaded
        code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, network + offset + 4 * static_cast<uint32_t>(i)));
      code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, address[i], 0, to_next_address));
    }
    code.push_back(BPF_STMT(BPF_RET | BPF_K, UINT32_MAX));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  if (code.size() > BPF_MAXINSNS) code.clear();
  return code;
}

int option_of(int socket, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(socket, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
}

bool attach(int socket, std::vector<sock_filter>& code) {
  const sock_fprog program{.len = static_cast<unsigned short>(code.size()), .filter = code.data()};
  return !code.empty() && setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace

std::vector<std::string> addresses_of_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* entry = list; entry; entry = entry->ifa_next) {
    const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
    if ((entry->ifa_flags & IFF_UP) == 0 || (family != AF_INET && family != AF_INET6)) continue;
    const auto* const address = reinterpret_cast<const std::byte*>(entry->ifa_addr);
    std::array<char, INET6_ADDRSTRLEN> text{};
    const size_t at = family == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    if (inet_ntop(family, address + at, text.data(), text.size())) addresses.emplace_back(text.data());
  }
  return addresses;
}

int admit_only(std::span<const std::string> addresses) {
  std::vector<sock_filter> filter4 = filter_for(parse(addresses, AF_INET, 1), kSource4),
                           filter6 = filter_for(parse(addresses, AF_INET6, 4), kSource6);
  int admitted = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int socket = std::atoi(entry.path().filename().c_str());
    if (option_of(socket, SO_ACCEPTCONN) != 1 || option_of(socket, SO_PROTOCOL) != IPPROTO_TCP) continue;
    admitted += attach(socket, option_of(socket, SO_DOMAIN) == AF_INET ? filter4 : filter6);
  }
  return admitted;
}

}  // namespace ddp
