#include "telemetry/http_server.h"

#include "core/error.h"
#include "core/read_file.h"

#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace ddp {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Deadline = std::optional<SteadyClock::time_point>;

constexpr size_t kLargestRequest = 4096;
constexpr auto kLongestConnection = std::chrono::seconds(2);
constexpr auto kPauseWithoutFiles = std::chrono::milliseconds(100);
constexpr int kWaitingConnections = 16;

// Waits until `file` is ready for `events`. Returns false on the deadline, and as soon as `stop` is readable.
bool await(int file, short events, int stop, const Deadline& deadline) {
  std::array<pollfd, 2> files{pollfd{.fd = stop, .events = POLLIN, .revents = 0},
                              pollfd{.fd = file, .events = events, .revents = 0}};
  while (true) {
    int milliseconds = -1;
    if (deadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - SteadyClock::now()).count();
      milliseconds = static_cast<int>(std::max<int64_t>(0, left));
    }
    const int ready = ::poll(files.data(), files.size(), milliseconds);
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && files[0].revents == 0;
  }
}

class Connection final : public httplib::Stream {
 public:
  Connection(int socket, int stop) : socket_(socket), stop_(stop), deadline_(SteadyClock::now() + kLongestConnection) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  socket_t socket() const override { return socket_; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}

  // Reads a request up to its empty line. Returns false on the deadline, and where the request is too large.
  bool receive() {
    while (text().find("\r\n\r\n") == std::string_view::npos) {
      if (received_ == request_.size() || !await(socket_, POLLIN, stop_, deadline_)) return false;
      const ssize_t got = ::recv(socket_, request_.data() + received_, request_.size() - received_, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0) return false;
      received_ += static_cast<size_t>(got);
    }
    return true;
  }

  // Drops the headers: no answer depends on one, and httplib searches some with std::regex, whose stack grows with
  // them.
  void keep_first_line() {
    const size_t end = text().find("\r\n");
    received_ = end + 4;
    std::copy_n("\r\n\r\n", 4, request_.data() + end);
  }

  ssize_t read(char* to, size_t bytes) override {
    bytes = std::min(bytes, received_ - taken_);
    std::copy_n(request_.data() + taken_, bytes, to);
    taken_ += bytes;
    return static_cast<ssize_t>(bytes);
  }
  ssize_t write(const char* from, size_t bytes) override {
    for (size_t done = 0; done < bytes;) {
      if (!await(socket_, POLLOUT, stop_, deadline_)) return -1;
      const ssize_t sent = ::send(socket_, from + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return -1;
      if (sent > 0) done += static_cast<size_t>(sent);
    }
    return static_cast<ssize_t>(bytes);
  }

 private:
  std::string_view text() const { return {request_.data(), received_}; }

  const int socket_, stop_;
  const SteadyClock::time_point deadline_;
  std::array<char, kLargestRequest> request_;
  size_t received_ = 0, taken_ = 0;
};

// httplib parses a request, finds its answer and writes it. Its own loops over connections have no limit of time.
class Routes final : public httplib::Server {
 public:
  explicit Routes(HttpServer::Answers answers) {
    set_payload_max_length(0);
    for (auto& [path, answer] : answers)
      Get(path, [answer = std::move(answer)](const httplib::Request&, httplib::Response& response) {
        const HttpAnswer given = answer();
        response.status = given.status;
        response.set_content(given.content, given.type);
      });
  }
  void serve(httplib::Stream& stream) {
    bool closed = false;
    process_request(stream, true, closed, nullptr);
  }
};

int listen_on(const std::string& address, uint16_t port) {
  const auto refuse = [&](const char* reason) {
    fail(Exit::output, "cannot listen on port {} of {}: {}; choose another --metrics-port or --metrics-address", port,
         address, reason);
  };
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(address.c_str(), fmt::to_string(port).c_str(), &hints, &found);
  if (error != 0) refuse(::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;  // a port that an ended run has left is free
  if (socket >= 0 && ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
      ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 && ::listen(socket, kWaitingConnections) == 0)
    return socket;
  const int reason = errno;
  if (socket >= 0) ::close(socket);
  refuse(std::strerror(reason));
  return -1;
}

}  // namespace

struct HttpServer::State {
  State(const std::string& address, uint16_t port, Answers answers)
      : listener(listen_on(address, port)), stop(::eventfd(0, EFD_CLOEXEC)), routes(std::move(answers)) {
    require(stop.get() >= 0, Exit::output, "cannot make an eventfd: {}", std::strerror(errno));
    thread = std::thread([this] { serve(); });
  }
  ~State() {
    ::eventfd_write(stop.get(), 1);
    thread.join();
  }

  void serve() {
    while (await(listener.get(), POLLIN, stop.get(), {})) {
      const OpenFile socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (socket.get() >= 0)
        answer(socket.get());
      else if (errno == EMFILE || errno == ENFILE)  // the client keeps waiting
        await(-1, 0, stop.get(), SteadyClock::now() + kPauseWithoutFiles);
    }
  }

  // An exception ends this connection only.
  void answer(int socket) {
    try {
      Connection connection(socket, stop.get());
      if (!connection.receive()) return;
      connection.keep_first_line();
      routes.serve(connection);
    } catch (const std::exception&) {
    }
    ::shutdown(socket, SHUT_WR);
  }

  const OpenFile listener, stop;
  Routes routes;
  std::thread thread;
};

HttpServer::HttpServer(const std::string& address, uint16_t port, Answers answers)
    : state_(std::make_unique<State>(address, port, std::move(answers))) {}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  ::getsockname(state_->listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
  const uint16_t number = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                        : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(number);
}

}  // namespace ddp
