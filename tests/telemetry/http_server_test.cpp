#include "telemetry/http_server.h"

#include "core/error.h"
#include "core/read_file.h"
#include "tests/test_clock.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace ddp {
namespace {

// A client that sends raw bytes.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect");
  }
  void send(const std::string& text) const {
    EXPECT_EQ(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  bool sends(const std::string& text) const {
    return ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  std::string answer() const {  // until the server ends the connection
    std::string all;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::recv(socket_.get(), part.data(), part.size(), 0)) > 0;) all.append(part.data(), got);
    return all;
  }

 private:
  const OpenFile socket_;
};

HttpServer make_server(uint16_t port = 0) {
  return {"127.0.0.1",
          port,
          {{"/good", [] { return HttpAnswer{.type = "text/plain", .content = "fine\n"}; }},
           {"/bad", [] { return HttpAnswer{.status = 503, .type = "application/json", .content = "{}"}; }},
           {"/large", [] { return HttpAnswer{.type = "text/plain", .content = std::string(1 << 20, 'x')}; }}}};
}

std::string ask(const HttpServer& server, const std::string& request) {
  const Client client(server.port());
  client.send(request);
  return client.answer();
}

std::string get(const HttpServer& server, const std::string& path, const std::string& headers = "") {
  return ask(server, "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n");
}

TEST(HttpServer, AnswersGetRequestsForItsPaths) {
  const HttpServer server = make_server();
  const std::string good = get(server, "/good", "Host: here\r\nRange: bytes=1-2\r\nAccept-Encoding: gzip\r\n");
  EXPECT_EQ(good.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(good.find("Content-Type: text/plain\r\n"), std::string::npos) << good;
  EXPECT_EQ(good.substr(good.size() - 9), "\r\n\r\nfine\n");
  EXPECT_EQ(get(server, "/bad").substr(0, 12), "HTTP/1.1 503");
  EXPECT_EQ(get(server, "/large").size() - get(server, "/large").find("\r\n\r\n"), (1 << 20) + 4u);
  for (const char* path : {"/", "/good/", "/goodness", "/../etc/passwd", "/%2e%2e/", "//good"})
    EXPECT_EQ(get(server, path).substr(0, 12), "HTTP/1.1 404") << path;
  EXPECT_EQ(ask(server, "POST /good HTTP/1.1\r\nContent-Length: 2\r\n\r\nab").substr(0, 12), "HTTP/1.1 404");
}

// The program's stacks may be small: std::regex of a long header would overflow them.
TEST(HttpServer, BadRequestsEndTheirOwnConnectionOnly) {
  pthread_attr_t small;
  ASSERT_EQ(::pthread_attr_init(&small), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&small, 1 << 20), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&small), 0);  // ctest runs each case in its own process
  const HttpServer server = make_server();
  std::string ranges = "0-1";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  EXPECT_EQ(get(server, "/good", "Range: bytes=" + ranges + "\r\n").substr(0, 12), "HTTP/1.1 200");
  const std::string large(5000, 'a');
  for (const std::string& request :
       {large, "GET /" + large + " HTTP/1.1\r\n\r\n", "GET /good HTTP/1.1\r\nA: " + large + "\r\n\r\n"})
    EXPECT_EQ(ask(server, request), "") << request.substr(0, 40);
  for (const std::string& request :
       {std::string("\r\n\r\n"), std::string(100, '\0') + "\r\n\r\n", "GET /" + std::string(3900, 'a') + "\r\n\r\n",
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")})
    EXPECT_EQ(ask(server, request).substr(0, 12), "HTTP/1.1 400") << request.substr(0, 40);
  EXPECT_EQ(get(server, "/good?" + std::string(3900, '%')).substr(0, 12), "HTTP/1.1 200");
}

TEST(HttpServer, ASlowClientIsCutOff) {
  const HttpServer server = make_server();
  const Client slow(server.port());
  slow.send("GET /go");
  EXPECT_EQ(get(server, "/good").substr(0, 12), "HTTP/1.1 200");  // comes when the slow one is cut off
  EXPECT_EQ(slow.answer(), "");
}

// The clock stands still, so the client is not cut off before the server's largest request is full.
TEST(HttpServer, ASlowClientDoesNotDelayTheEnd) {
  testing::TestClock clock;
  std::atomic<int> sent = 0;
  std::thread client;
  {
    const HttpServer server = make_server();
    client = std::thread([&, port = server.port()] {
      for (const Client slow(port); sent < 2000 && slow.sends("G"); ++sent)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    while (sent < 10) std::this_thread::yield();
  }
  client.join();
  EXPECT_LT(sent, 2000);
}

TEST(HttpServer, ATakenPortIsNamed) {
  const HttpServer first = make_server();
  try {
    const HttpServer second = make_server(first.port());
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "cannot listen on port " + std::to_string(first.port()) +
                                         " of 127.0.0.1: Address already in use; choose another --metrics-port or "
                                         "--metrics-address");
  }
}

}  // namespace
}  // namespace ddp
