// Answers GET requests for a few paths, in its own thread, one connection after the other. A connection has one request
// of at most 4 KiB and ends after two seconds: a slow client delays others by that, and never the end of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ddp {

struct HttpAnswer {
  int status = 200;
  std::string type;  // of the content, such as "application/json"
  std::string content;
};

class HttpServer {
 public:
  using Answers = std::map<std::string, std::function<HttpAnswer()>>;  // by path; called in the thread

  // Listens on a numeric address. Throws Error(Exit::output) where it cannot, as on a port that is taken.
  HttpServer(const std::string& address, uint16_t port, Answers answers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;  // a free one where the given port was 0

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
