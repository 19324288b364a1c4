#include "telemetry/http_server.h"

#include "core/error.h"
#include "tests/telemetry/http_client.h"
#include "tests/test_clock.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <string>
#include <thread>

namespace ddp {
namespace {

using testing::ask;
using testing::get;
using testing::HttpClient;
using testing::status_of;

HttpServer make_server(uint16_t port = 0) {
  return {"127.0.0.1",
          port,
          {{"/good", [] { return HttpAnswer{.type = "text/plain", .content = "fine\n"}; }},
           {"/bad", [] { return HttpAnswer{.status = 503, .type = "application/json", .content = "{}"}; }},
           {"/large", [] { return HttpAnswer{.type = "text/plain", .content = std::string(1 << 20, 'x')}; }}}};
}

TEST(HttpServer, AnswersGetRequestsForItsPaths) {
  const HttpServer server = make_server();
  const std::string good = get(server.port(), "/good", "Host: here\r\nRange: bytes=1-2\r\nAccept-Encoding: gzip\r\n");
  EXPECT_EQ(good.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_NE(good.find("Content-Type: text/plain\r\n"), std::string::npos) << good;
  EXPECT_EQ(good.substr(good.size() - 9), "\r\n\r\nfine\n");
  EXPECT_EQ(status_of(get(server.port(), "/bad")), "HTTP/1.1 503");
  EXPECT_EQ(get(server.port(), "/large").size() - get(server.port(), "/large").find("\r\n\r\n"), (1 << 20) + 4u);
  for (const char* path : {"/", "/good/", "/goodness", "/../etc/passwd", "/%2e%2e/", "//good"})
    EXPECT_EQ(status_of(get(server.port(), path)), "HTTP/1.1 404") << path;
  EXPECT_EQ(status_of(ask(server.port(), "POST /good HTTP/1.1\r\nContent-Length: 2\r\n\r\nab")), "HTTP/1.1 404");
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
  EXPECT_EQ(status_of(get(server.port(), "/good", "Range: bytes=" + ranges + "\r\n")), "HTTP/1.1 200");
  const std::string large(5000, 'a');
  for (const std::string& request :
       {large, "GET /" + large + " HTTP/1.1\r\n\r\n", "GET /good HTTP/1.1\r\nA: " + large + "\r\n\r\n"})
    EXPECT_EQ(ask(server.port(), request), "") << request.substr(0, 40);
  for (const std::string& request :
       {std::string("\r\n\r\n"), std::string(100, '\0') + "\r\n\r\n", "GET /" + std::string(3900, 'a') + "\r\n\r\n",
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")})
    EXPECT_EQ(status_of(ask(server.port(), request)), "HTTP/1.1 400") << request.substr(0, 40);
  EXPECT_EQ(status_of(get(server.port(), "/good?" + std::string(3900, '%'))), "HTTP/1.1 200");
}

// The answer to a later client shows that the server has seen what was sent before.
TEST(HttpServer, ARequestHasTwoSecondsFromItsFirstByte) {
  testing::TestClock clock;
  const HttpServer server = make_server();
  const HttpClient silent(server.port()), slow(server.port()), slower(server.port());
  EXPECT_EQ(status_of(get(server.port(), "/good")), "HTTP/1.1 200");
  clock.pass(std::chrono::hours(1));
  slow.send("G");
  slower.send("G");
  EXPECT_EQ(status_of(get(server.port(), "/good")), "HTTP/1.1 200");
  clock.pass(std::chrono::milliseconds(1999));
  slow.send("ET /good HTTP/1.1\r\n\r\n");
  slower.send("E");
  EXPECT_EQ(status_of(slow.answer()), "HTTP/1.1 200");
  clock.pass(std::chrono::milliseconds(1));
  EXPECT_EQ(status_of(get(server.port(), "/good")), "HTTP/1.1 200");
  EXPECT_EQ(slower.answer(), "");
  silent.send("GET /good HTTP/1.1\r\n\r\n");
  EXPECT_EQ(status_of(silent.answer()), "HTTP/1.1 200");
}

TEST(HttpServer, TheConnectionThatIsSilentLongestMakesRoom) {
  testing::TestClock clock;
  const HttpServer server = make_server();
  std::deque<HttpClient> clients;
  for (int i = 0; i < 32; ++i) clients.emplace_back(server.port()).send("GET /go");
  EXPECT_EQ(status_of(get(server.port(), "/good")), "HTTP/1.1 200");
  EXPECT_EQ(clients[0].answer(), "");
  clients[1].send("od HTTP/1.1");
  for (int i = 0; i < 2; ++i) clients.emplace_back(server.port()).send("GET /go");
  EXPECT_EQ(clients[2].answer(), "");
  for (const int i : {1, 3, 33}) {
    clients[i].send(i == 1 ? "\r\n\r\n" : "od HTTP/1.1\r\n\r\n");
    EXPECT_EQ(status_of(clients[i].answer()), "HTTP/1.1 200") << i;
  }
}

// The clock stands still, so the client is not cut off before the server's largest request is full.
TEST(HttpServer, ASlowClientDoesNotDelayTheEnd) {
  testing::TestClock clock;
  std::atomic<int> sent = 0;
  std::thread client;
  {
    const HttpServer server = make_server();
    client = std::thread([&, port = server.port()] {
      for (const HttpClient slow(port); sent < 2000 && slow.sends("G"); ++sent)
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
