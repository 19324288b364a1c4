#include "comm/mpi/startup_watchdog.h"

#include "comm/heartbeat/heartbeat_table.h"
#include "comm/heartbeat/host_probe.h"
#include "comm/mpi/mpirun.h"
#include "core/error.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/stopwatch.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <utility>

namespace ddp {
namespace {

constexpr std::chrono::milliseconds kCheckInterval(20);
constexpr int64_t kProbeMpirun_ns = 4'000'000'000;

// The address list and port of mpirun in a URI such as "2672033792.0;tcp://10.77.0.1,10.78.0.1:60253".
struct Listener {
  std::string addresses;  // empty: unknown
  uint16_t port = 0;
};

Listener listener_in(const Environment& environment) {
  const std::string text = value_in(environment, "OMPI_MCA_orte_hnp_uri");
  const size_t begin = text.find("tcp://");
  const size_t colon = begin == text.npos ? text.npos : text.find(':', begin + 6);
  Listener listener;
  if (colon == text.npos) return listener;
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), listener.port);
  if (listener.port != 0) listener.addresses = text.substr(begin + 6, colon - begin - 6);
  return listener;
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

void report_unreachable(const std::string& addresses, int64_t unanswered_ns) {
  write_text(
      stderr,
      fmt::format(
          "ddp_train: error: on {}: the host of mpirun ({}) cannot be reached during start-up: no answer for {:.1f} s. "
          "The host is down or suspended, or the network to it is cut: check both, then start the run again\n",
          host_name(), addresses, 1e-9 * static_cast<double>(unanswered_ns)));
}

}  // namespace

StartupWatchdog::StartupWatchdog(const Environment& environment) {
  const auto [addresses, port] = listener_in(environment);
  const auto expected = expected_world(environment);
  if (addresses.empty() || (expected && expected->local_rank != 0)) return;
  thread_ = std::thread([this, addresses, port] { watch(addresses, port); });
}

StartupWatchdog::~StartupWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// After four seconds without an answer of the host's kernel, also probes mpirun's own port: a firewall may have begun
// to drop the other probes.
void StartupWatchdog::watch(const std::string& addresses, uint16_t port) {
  HostProbe host(parse(addresses)), mpirun(parse(addresses), port, port);
  int64_t answered_ns = 0;  // 0: never
  int64_t last_check_ns = steady_ns();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kCheckInterval, [this] { return stop_; })) {
    const int64_t now_ns = steady_ns();
    const bool suspended = now_ns - std::exchange(last_check_ns, now_ns) > kSuspended_ns;
    if (host.answered(now_ns) || (answered_ns != 0 && suspended)) answered_ns = now_ns;
    if (answered_ns == 0 || now_ns - answered_ns < kProbeMpirun_ns) continue;
    if (mpirun.answered(now_ns)) answered_ns = now_ns;
    if (now_ns - answered_ns < kUnreachable_ns) continue;
    report_unreachable(addresses, now_ns - answered_ns);
    end_parent(parent_of_process());
    _exit(static_cast<int>(Exit::communication));
  }
}

}  // namespace ddp
