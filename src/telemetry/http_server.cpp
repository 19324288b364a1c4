#include "telemetry/http_server.h"

#include "core/error.h"
#include "core/read_file.h"

#include <fmt/format.h>
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
#include <string>
#include <thread>
#include <utility>

namespace ddp {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kLargestRequest = 4096, kMostConnections = 32;
constexpr auto kLongestRequest = std::chrono::seconds(2);  // with its answer, from its first byte
constexpr auto kPauseWithoutFiles = milliseconds(100);
constexpr pollfd kNoFile{.fd = -1, .events = 0, .revents = 0};

class Connection {
 public:
  explicit Connection(int socket) : socket_(socket) {}

  pollfd awaited() const {
    return {.fd = socket_.get(), .events = static_cast<short>(answer_.empty() ? POLLIN : POLLOUT), .revents = 0};
  }
  SteadyClock::time_point end() const { return end_; }

  int64_t turn = 0;  // when it last went on, as a count

  // Receives and sends what needs no waiting. Returns false where the connection is to be closed. An exception ends
  // this connection only.
  bool proceed(const HttpRoutes& routes) try {
    if (answer_.empty()) {
      if (!receive()) return false;
      if (!complete()) return true;
      answer_ = routes.answer(request_);
    }
    return !send();
  } catch (const std::exception&) {
    return false;
  }

 private:
  bool complete() const { return request_.find("\r\n\r\n") != request_.npos; }

  // Returns false where the client has left, and where the request is too large.
  bool receive() {
    std::array<char, kLargestRequest> part;
    while (!complete()) {
      const size_t room = kLargestRequest - request_.size();
      const ssize_t got = room == 0 ? 0 : ::recv(socket_.get(), part.data(), room, 0);
      if (got < 0) return errno == EAGAIN || errno == EINTR;
      if (got == 0) return false;
      if (request_.empty()) end_ = SteadyClock::now() + kLongestRequest;
      request_.append(part.data(), static_cast<size_t>(got));
    }
    return true;
  }

  // Returns true where there is no more to send.
  bool send() {
    while (sent_ < answer_.size()) {
      const ssize_t sent = ::send(socket_.get(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
      if (sent < 0) return errno != EAGAIN && errno != EINTR;
      sent_ += static_cast<size_t>(sent);
    }
    ::shutdown(socket_.get(), SHUT_WR);
    return true;
  }

  const OpenFile socket_;  // never blocks
  std::string request_, answer_;
  size_t sent_ = 0;
  SteadyClock::time_point end_ = SteadyClock::time_point::max();
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
      ::bind(socket, found->ai_addr, found->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0)
    return socket;
  const int reason = errno;
  if (socket >= 0) ::close(socket);
  refuse(std::strerror(reason));
  return -1;
}

}  // namespace

struct HttpServer::State {
  State(const std::string& address, uint16_t port, HttpAnswers answers)
      : listener(listen_on(address, port)), stop(::eventfd(0, EFD_CLOEXEC)), routes(std::move(answers)) {
    require(stop.get() >= 0, Exit::output, "cannot make an eventfd: {}", std::strerror(errno));
    thread = std::thread([this] { serve(); });
  }
  ~State() {
    ::eventfd_write(stop.get(), 1);
    thread.join();
  }

  void serve() {
    std::array<pollfd, 2 + kMostConnections> files;
    for (bool accepts = true;;) {
      files[0] = {.fd = stop.get(), .events = POLLIN, .revents = 0};
      files[1] = {.fd = accepts ? listener.get() : -1, .events = POLLIN, .revents = 0};
      for (size_t i = 0; i < slots.size(); ++i) files[2 + i] = slots[i] ? slots[i]->awaited() : kNoFile;
      ::poll(files.data(), files.size(), longest_wait(accepts));
      if (files[0].revents != 0) return;
      const auto now = SteadyClock::now();
      for (size_t i = 0; i < slots.size(); ++i) {
        if (files[2 + i].revents != 0) proceed(slots[i]);
        if (slots[i] && slots[i]->end() <= now) slots[i].reset();
      }
      accepts = files[1].revents == 0 || accept();
    }
  }

  // In ms, as poll() takes it.
  int longest_wait(bool accepts) const {
    const auto now = SteadyClock::now();
    auto end = accepts ? SteadyClock::time_point::max() : now + kPauseWithoutFiles;
    for (const auto& connection : slots)
      if (connection) end = std::min(end, connection->end());
    if (end == SteadyClock::time_point::max()) return -1;
    return static_cast<int>(std::max(std::chrono::ceil<milliseconds>(end - now), milliseconds(0)).count());
  }

  void proceed(std::optional<Connection>& slot) {
    slot->turn = ++turn;
    if (!slot->proceed(routes)) slot.reset();
  }

  // Takes a free slot, or that of the client that has been silent longest. Returns false where the process has no file
  // for the connection, whose client keeps waiting.
  bool accept() {
    auto& slot = *std::ranges::min_element(slots, {}, [](const auto& c) { return c ? c->turn : 0; });
    const int socket = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      slot.emplace(socket);
      proceed(slot);
      return true;
    }
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return true;
    slot.reset();  // the next connection gets its file
    return false;
  }

  const OpenFile listener, stop;
  const HttpRoutes routes;
  std::array<std::optional<Connection>, kMostConnections> slots;
  int64_t turn = 0;
  std::thread thread;
};

HttpServer::HttpServer(const std::string& address, uint16_t port, HttpAnswers answers)
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
