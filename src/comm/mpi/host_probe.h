// Whether another host is alive although its ranks say nothing: its kernel answers a TCP connection, which it accepts
// or refuses, when every process there is stopped, and when the link is so full that news is late. A cut link, a host
// that is down and one that is suspended do not answer.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

using HostAddresses = std::array<uint32_t, 8>;  // IPv4, in network order; 0: none

HostAddresses addresses_of_this_host();

class HostProbe {
 public:
  // Addresses that this host has too, such as those of bridges for containers, are left out.
  explicit HostProbe(const HostAddresses& there);
  ~HostProbe() { give_up(); }
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  // To be called again and again while an answer is wanted: begins an attempt where none is under way, at most twice a
  // second, and says whether one has been answered. Returns at once.
  bool answered(int64_t now_ns) noexcept;

 private:
  void begin(int64_t now_ns) noexcept;
  void give_up() noexcept;

  std::vector<uint32_t> addresses_;
  std::vector<int> sockets_;  // of the attempt under way
  int64_t began_ns_ = 0;
};

}  // namespace ddp
