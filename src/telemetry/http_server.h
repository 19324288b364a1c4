// Answers GET requests for a few paths, in its own thread, which never waits for one client. A connection has one
// request of at most 4 KiB; request and answer have two seconds from the first byte. There are at most 32 connections:
// a new one takes the place of the one that has been silent longest.
#pragma once

#include "telemetry/http_routes.h"

#include <cstdint>
#include <memory>
#include <string>

namespace ddp {

class HttpServer {
 public:
  // Listens on a numeric address, and calls the answers in its thread. Throws Error(Exit::output) where it cannot
  // listen, as on a port that is taken.
  HttpServer(const std::string& address, uint16_t port, HttpAnswers answers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // a free one where the given port was 0

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
