// Probes whether another host is alive although its ranks send nothing. The probe is a TCP connection: the host's
// kernel accepts or refuses it even when every process of the host is stopped, or when the link is so full that
// heartbeats are late. There is no answer over a cut link, from a host that is down or suspended, or behind a firewall
// that drops the packets.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ddp {

using HostAddresses = std::array<uint32_t, 8>;  // IPv4 addresses in network byte order; 0: unused entry

HostAddresses addresses_of_this_host();  // addresses of interfaces that are up, without loopback

class HostProbe {
 public:
  // No daemon listens on the discard port: a refusal costs no daemon a connection. mpirun needs the ssh port; it is
  // probed too, from the second probe on, until the discard port has answered once.
  static constexpr uint16_t kDiscard = 9, kSsh = 22;

  // Ignores addresses that this host has too, such as those of container bridges.
  explicit HostProbe(const HostAddresses& addresses, uint16_t port = kDiscard, uint16_t second_port = kSsh);
  ~HostProbe() { close_all(); }
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  // Returns whether an answer has come since the last call, and sends the next probe when it is due: two seconds after
  // an answered probe, one second after an unanswered one. Call it periodically; it never blocks.
  bool answered(int64_t now_ns) noexcept;

 private:
  struct Attempt {
    int socket;
    uint16_t port;
    int64_t started_ns;
  };
  void connect_all(uint16_t port, int64_t now_ns) noexcept;
  void close_all() noexcept;

  const uint16_t port_, second_port_;
  std::vector<uint32_t> addresses_;
  std::vector<Attempt> attempts_;
  int64_t next_probe_ns_ = 0, last_probe_ns_ = 0;  // times of the next and of the last probe; 0: none
  bool port_answers_ = false;
};

}  // namespace ddp
