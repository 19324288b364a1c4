#include "comm/mpi/host_probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace ddp {
namespace {

constexpr int kPort = 22;  // through which mpirun's remote shell comes: no firewall swallows the question
constexpr int64_t kAttempt_ns = 2'500'000'000;  // the kernel asks again after one second
constexpr int64_t kBetween_ns = 500'000'000;

}  // namespace

HostAddresses addresses_of_this_host() {
  HostAddresses addresses{};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return addresses;
  size_t count = 0;
  for (const ifaddrs* entry = all; entry && count < addresses.size(); entry = entry->ifa_next) {
    const bool usable = entry->ifa_addr && entry->ifa_addr->sa_family == AF_INET && (entry->ifa_flags & IFF_UP) &&
                        !(entry->ifa_flags & IFF_LOOPBACK);
    if (usable) addresses[count++] = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr.s_addr;
  }
  freeifaddrs(all);
  return addresses;
}

HostProbe::HostProbe(const HostAddresses& there) {
  const HostAddresses here = addresses_of_this_host();
  for (const uint32_t address : there)
    if (address != 0 && std::find(here.begin(), here.end(), address) == here.end()) addresses_.push_back(address);
  sockets_.reserve(addresses_.size());
}

bool HostProbe::answered(int64_t now_ns) noexcept {
  if (sockets_.empty() && now_ns - began_ns_ >= kBetween_ns) begin(now_ns);
  bool any = false;
  std::erase_if(sockets_, [&](int socket) {
    pollfd state{.fd = socket, .events = POLLOUT, .revents = 0};
    if (poll(&state, 1, 0) == 0) return false;
    int error = 0;
    socklen_t size = sizeof error;
    any |= getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && (error == 0 || error == ECONNREFUSED);
    close(socket);  // asked again, it would know of no error
    return true;
  });
  if (any || now_ns - began_ns_ > kAttempt_ns) give_up();
  return any;
}

void HostProbe::begin(int64_t now_ns) noexcept {
  began_ns_ = now_ns;
  for (const uint32_t address : addresses_) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kPort);
    to.sin_addr.s_addr = address;
    if (connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS)
      sockets_.push_back(socket);
    else
      close(socket);
  }
}

void HostProbe::give_up() noexcept {
  for (const int socket : sockets_) close(socket);
  sockets_.clear();
}

}  // namespace ddp
