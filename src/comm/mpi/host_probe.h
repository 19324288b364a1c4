// Whether another host is alive although its ranks say nothing: its kernel answers a TCP connection, which it accepts
// or refuses, when every process there is stopped, and when the link is so full that news is late. A cut link, a host
// that is down and one that is suspended do not answer; nor does a firewall that swallows the question.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ddp {

using HostAddresses = std::array<uint32_t, 8>;  // IPv4, in network order; 0: none

HostAddresses addresses_of_this_host();

class HostProbe {
 public:
  static constexpr uint16_t kDiscard = 9;  // served by nobody: a refusal costs no daemon a connection
  static constexpr uint16_t kSsh = 22;     // which mpirun needs: asked too until the first port has answered once

  // Addresses that this host has too, such as those of bridges for containers, are left out.
  explicit HostProbe(const HostAddresses& there, uint16_t port = kDiscard, uint16_t second_port = kSsh);
  ~HostProbe() { forget(); }
  HostProbe(const HostProbe&) = delete;
  HostProbe& operator=(const HostProbe&) = delete;

  // To be called again and again while an answer is wanted: asks two seconds after the last question where that was
  // answered, else one, and says whether an answer has come. Returns at once.
  bool answered(int64_t now_ns) noexcept;

 private:
  struct Question {
    int socket;
    uint16_t port;
    int64_t asked_ns;
  };
  void ask(uint16_t port, int64_t now_ns) noexcept;
  void forget() noexcept;

  const uint16_t port_, second_port_;
  std::vector<uint32_t> addresses_;
  std::vector<Question> open_;
  int64_t next_ns_ = 0, asked_ns_ = 0;  // 0: never
  bool port_answers_ = false;
};

}  // namespace ddp
