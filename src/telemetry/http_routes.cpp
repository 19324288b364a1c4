#include "telemetry/http_routes.h"

#include <httplib.h>

#include <string_view>
#include <utility>

namespace ddp {
namespace {

// A request in memory, and its answer.
class Exchange final : public httplib::Stream {
 public:
  explicit Exchange(std::string_view request) : request_(request) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  socket_t socket() const override { return -1; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}

  ssize_t read(char* to, size_t bytes) override {
    const size_t taken = request_.copy(to, bytes);
    request_.remove_prefix(taken);
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* from, size_t bytes) override {
    answer.append(from, bytes);
    return static_cast<ssize_t>(bytes);
  }

  std::string answer;

 private:
  std::string_view request_;
};

}  // namespace

// httplib parses a request, finds its answer and writes it. Its own loops over connections wait for their clients.
class HttpRoutes::Server final : public httplib::Server {
 public:
  explicit Server(HttpAnswers answers) {
    set_payload_max_length(0);
    for (auto& [path, answer] : answers)
      Get(path, [answer = std::move(answer)](const httplib::Request&, httplib::Response& response) {
        const HttpAnswer given = answer();
        response.status = given.status;
        response.set_content(given.content, given.type);
      });
  }
  void process(Exchange& exchange) {
    bool closed = false;
    process_request(exchange, true, closed, nullptr);
  }
};

HttpRoutes::HttpRoutes(HttpAnswers answers) : server_(std::make_unique<Server>(std::move(answers))) {}

HttpRoutes::~HttpRoutes() = default;

// No answer depends on a header, and httplib searches some with std::regex, whose stack grows with them.
std::string HttpRoutes::answer(const std::string& request) const {
  const std::string line = request.substr(0, request.find("\r\n")) + "\r\n\r\n";
  Exchange exchange(line);
  server_->process(exchange);
  return std::move(exchange.answer);
}

}  // namespace ddp
