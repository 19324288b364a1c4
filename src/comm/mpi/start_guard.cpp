#include "comm/mpi/start_guard.h"

#include "comm/board_cell.h"
#include "comm/mpi/mpirun.h"
#include "core/error.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <sstream>

namespace ddp {
namespace {

constexpr int64_t kUnanswered_ns = 7'000'000'000;

// Of "2672033792.0;tcp://10.77.0.1,10.78.0.1:60253".
std::string addresses_in(const Environment& environment) {
  const auto uri = environment.find("OMPI_MCA_orte_hnp_uri");
  if (uri == environment.end()) return "";
  const std::string& text = uri->second;
  const size_t begin = text.find("tcp://");
  if (begin == text.npos) return "";
  const size_t end = text.find_first_of(":;", begin + 6);
  return end == text.npos ? "" : text.substr(begin + 6, end - begin - 6);
}

HostAddresses parse(const std::string& list) {
  HostAddresses addresses{};
  std::istringstream stream(list);
  std::string word;
  for (size_t count = 0; count < addresses.size() && std::getline(stream, word, ',');) {
    in_addr address{};
    if (inet_pton(AF_INET, word.c_str(), &address) == 1) addresses[count++] = address.s_addr;
  }
  return addresses;
}

}  // namespace

StartGuard::StartGuard(const Environment& environment) : addresses_(addresses_in(environment)) {
  if (!addresses_.empty()) thread_ = std::thread([this] { watch(); });
}

StartGuard::~StartGuard() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StartGuard::watch() {
  HostProbe probe(parse(addresses_));
  int64_t answered_ns = 0;  // 0: never
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return stop_; })) {
    const int64_t now_ns = steady_ns();
    if (probe.answered(now_ns)) answered_ns = now_ns;
    if (answered_ns == 0 || now_ns - answered_ns < kUnanswered_ns) continue;
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    fmt::print(
        stderr,
        "ddp_train: error: on {}: the host of mpirun ({}) cannot be reached in start-up: no answer for {:.1f} s. "
        "The network to it is cut, or it is down or suspended: look at it from here, then start the run again\n",
        host.data(), addresses_, 1e-9 * static_cast<double>(now_ns - answered_ns));
    end_launcher(launcher_of_process());
    _exit(static_cast<int>(Exit::communication));
  }
}

}  // namespace ddp
