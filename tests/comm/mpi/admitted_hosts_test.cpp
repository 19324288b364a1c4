#include "comm/mpi/admitted_hosts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddp {
namespace {

sockaddr_in address_of(const char* text, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = port;
  inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

const sockaddr* generic(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

class AdmittedHosts : public ::testing::Test {
 protected:
  AdmittedHosts() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in own = address_of("127.0.0.1", 0);
    socklen_t size = sizeof own;
    EXPECT_EQ(::bind(listener, generic(own), size), 0);
    EXPECT_EQ(::listen(listener, 8), 0);
    EXPECT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size), 0);
    port = own.sin_port;
  }
  ~AdmittedHosts() override {
    for (const int guest : guests) ::close(guest);
    ::close(listener);
  }

  // Returns at once: the kernel goes on.
  int connect_from(const char* source) {
    const int guest = guests.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    const sockaddr_in from = address_of(source, 0), to = address_of("127.0.0.1", port);
    EXPECT_EQ(::bind(guest, generic(from), sizeof from), 0);
    ::connect(guest, generic(to), sizeof to);
    return guest;
  }

  // The sources of the connections that wait.
  std::vector<std::string> accepted() const {
    std::vector<std::string> sources;
    while (true) {
      sockaddr_in peer{};
      socklen_t size = sizeof peer;
      const int connection = ::accept(listener, reinterpret_cast<sockaddr*>(&peer), &size);
      if (connection < 0) return sources;
      ::close(connection);
      char text[INET_ADDRSTRLEN] = "";
      sources.emplace_back(inet_ntop(AF_INET, &peer.sin_addr, text, sizeof text));
    }
  }

  const int listener;
  uint16_t port = 0;
  std::vector<int> guests;
};

TEST_F(AdmittedHosts, AloneReachASocketThatListens) {
  connect_from("127.0.0.2");
  connect_from("127.0.0.1");
  EXPECT_EQ(accepted(), (std::vector<std::string>{"127.0.0.2", "127.0.0.1"}));
  const std::vector<std::string> hosts = {"10.1.2.3", "::1", "no address", "127.0.0.1", "127.0.0.3"};
  EXPECT_EQ(admit_only(hosts), 1);
  for (const char* source : {"127.0.0.2", "127.0.0.3", "127.1.0.1", "127.0.0.1"}) connect_from(source);
  EXPECT_EQ(accepted(), (std::vector<std::string>{"127.0.0.3", "127.0.0.1"}));
}

TEST_F(AdmittedHosts, TooManyLeaveASocketOpen) {
  std::vector<std::string> hosts;
  for (int i = 0; i < 3000; ++i) hosts.push_back("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  EXPECT_EQ(admit_only(hosts), 0);
  connect_from("127.0.0.2");
  EXPECT_EQ(accepted(), std::vector<std::string>{"127.0.0.2"});
}

TEST(AddressesOfInterfaces, HaveLoopback) {
  const auto addresses = addresses_of_interfaces();
  EXPECT_NE(std::ranges::find(addresses, "127.0.0.1"), addresses.end());
}

}  // namespace
}  // namespace ddp
