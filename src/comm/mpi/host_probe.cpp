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

constexpr int64_t kPatience_ns = 2'500'000'000;  // time limit of a probe; the kernel repeats its packet after 1 s
constexpr int64_t kWhileAnswered_ns = 2'000'000'000, kUnanswered_ns = 1'000'000'000;  // time to the next probe

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

HostProbe::HostProbe(const HostAddresses& there, uint16_t port, uint16_t second_port)
    : port_(port), second_port_(second_port) {
  const HostAddresses here = addresses_of_this_host();
  for (const uint32_t address : there)
    if (address != 0 && std::find(here.begin(), here.end(), address) == here.end()) addresses_.push_back(address);
  open_.reserve(2 * addresses_.size() * (1 + kPatience_ns / kUnanswered_ns));
}

bool HostProbe::answered(int64_t now_ns) noexcept {
  bool any = false;
  std::erase_if(open_, [&](const Question& question) {
    pollfd state{.fd = question.socket, .events = POLLOUT, .revents = 0};
    const bool late = now_ns - question.asked_ns > kPatience_ns;
    if (!late && poll(&state, 1, 0) <= 0) return false;
    int error = 0;
    socklen_t size = sizeof error;
    const bool answer = !late && getsockopt(question.socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                        (error == 0 || error == ECONNREFUSED);
    any |= answer;
    port_answers_ |= answer && question.port == port_;
    close(question.socket);  // getsockopt has cleared the error: the socket cannot be asked again
    return true;
  });
  if (any) {
    forget();
    next_ns_ = asked_ns_ + kWhileAnswered_ns;
  } else if (now_ns >= next_ns_) {
    ask(port_, now_ns);
    if (asked_ns_ != 0 && !port_answers_ && second_port_ != port_) ask(second_port_, now_ns);
    asked_ns_ = now_ns;
    next_ns_ = now_ns + kUnanswered_ns;
  }
  return any;
}

void HostProbe::ask(uint16_t port, int64_t now_ns) noexcept {
  for (const uint32_t address : addresses_) {
    if (open_.size() == open_.capacity()) return;
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = address;
    if (connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS)
      open_.push_back({socket, port, now_ns});
    else
      close(socket);
  }
}

void HostProbe::forget() noexcept {
  for (const Question& question : open_) close(question.socket);
  open_.clear();
}

}  // namespace ddp
