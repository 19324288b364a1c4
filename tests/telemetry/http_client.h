// A client that sends raw bytes to a server of this host. A minute without an answer ends a hang.
#pragma once

#include "core/read_file.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace ddp::testing {

class HttpClient {
 public:
  explicit HttpClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{.tv_sec = 60, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }
  bool sends(const std::string& text) const {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  void send(const std::string& text) const { EXPECT_TRUE(sends(text)) << text; }
  std::string answer() const {  // until the server ends the connection
    std::string all;
    std::array<char, 4096> part{};
    ssize_t got;
    while ((got = ::recv(socket_.get(), part.data(), part.size(), 0)) > 0) all.append(part.data(), got);
    EXPECT_FALSE(got < 0 && errno == EAGAIN) << "no answer within a minute";
    return all;
  }

 private:
  const OpenFile socket_;
};

inline std::string ask(uint16_t port, const std::string& request) {
  const HttpClient client(port);
  client.send(request);
  return client.answer();
}

inline std::string get(uint16_t port, const std::string& path, const std::string& headers = "") {
  return ask(port, "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n");
}

inline std::string status_of(const std::string& answer) { return answer.substr(0, 12); }  // such as "HTTP/1.1 200"

}  // namespace ddp::testing
