#include "comm/heartbeat/host_probe.h"

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

constexpr int64_t kAnswerTimeout_ns = 2'500'000'000;  // time limit of a probe; the kernel repeats its packet after 1 s
constexpr int64_t kAnsweredInterval_ns = 2'000'000'000,
                  kUnansweredInterval_ns = 1'000'000'000;  // time to the next probe

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

HostProbe::HostProbe(const HostAddresses& addresses, uint16_t port, uint16_t second_port)
    : port_(port), second_port_(second_port) {
  const HostAddresses here = addresses_of_this_host();
  for (const uint32_t address : addresses)
    if (address != 0 && std::find(here.begin(), here.end(), address) == here.end()) addresses_.push_back(address);
  attempts_.reserve(2 * addresses_.size() * (1 + kAnswerTimeout_ns / kUnansweredInterval_ns));
}

bool HostProbe::answered(int64_t now_ns) noexcept {
  bool any = false;
  std::erase_if(attempts_, [&](const Attempt& attempt) {
    pollfd state{.fd = attempt.socket, .events = POLLOUT, .revents = 0};
    const bool late = now_ns - attempt.started_ns > kAnswerTimeout_ns;
    if (!late && poll(&state, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t size = sizeof error;
    const bool answer = !late && getsockopt(attempt.socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                        (error == 0 || error == ECONNREFUSED);
    any |= answer;
    port_answers_ |= answer && attempt.port == port_;
    close(attempt.socket);  // getsockopt has cleared the error: the socket cannot be queried again
    return true;
  });
  if (any) {
    close_all();
    next_probe_ns_ = last_probe_ns_ + kAnsweredInterval_ns;
  } else if (now_ns >= next_probe_ns_) {
    connect_all(port_, now_ns);
    if (last_probe_ns_ != 0 && !port_answers_ && second_port_ != port_) connect_all(second_port_, now_ns);
    last_probe_ns_ = now_ns;
    next_probe_ns_ = now_ns + kUnansweredInterval_ns;
  }
  return any;
}

void HostProbe::connect_all(uint16_t port, int64_t now_ns) noexcept {
  for (const uint32_t address : addresses_) {
    if (attempts_.size() == attempts_.capacity()) return;
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = address;
    if (connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS)
      attempts_.push_back({socket, port, now_ns});
    else
      close(socket);
  }
}

void HostProbe::close_all() noexcept {
  for (const Attempt& attempt : attempts_) close(attempt.socket);
  attempts_.clear();
}

}  // namespace ddp
