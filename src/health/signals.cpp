#include "health/signals.h"

#include "comm/mpi/launcher.h"
#include "core/log.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

using Clock = std::chrono::steady_clock;

// mpirun and a scheduler may both deliver the same request: signals within this time count as one.
constexpr std::chrono::seconds kSameRequest{1};

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// SIGHUP is a request unless nohup has made this process ignore it.
sigset_t requests() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  return set;
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    default: return "SIGUSR1";
  }
}

}  // namespace

Signals::Signals() {
  const sigset_t set = requests();
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr))
    throw std::system_error(error, std::generic_category(), "pthread_sigmask");
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  thread_ = std::thread([this] { wait_for_signals(); });
}

Signals::~Signals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR2);  // wakes the thread
  thread_.join();
}

void Signals::on_dump(std::function<void(int)> dump) {
  const std::lock_guard lock(callbacks_);
  dump_ = std::move(dump);
}

void Signals::on_second_request(std::function<void(int, const std::string&)> end) {
  const std::lock_guard lock(callbacks_);
  second_request_ = std::move(end);
}

void Signals::wait_for_signals() {
  const sigset_t set = requests();
  Clock::time_point first;
  for (;;) {
    int signal = 0;
    if (sigwait(&set, &signal) != 0) continue;
    if (ending_) return;
    if (signal == SIGUSR2 || signal == SIGTERM) {
      const std::lock_guard lock(callbacks_);
      if (dump_) dump_(signal);
    }
    if (signal == SIGUSR2) continue;
    if (!stop_requested()) {
      first = Clock::now();
      stop_signal_ = name_of(signal);
    } else if (Clock::now() - first >= kSameRequest) {
      end_now(signal);
    }
  }
}

void Signals::end_now(int signal) {
  const std::string line = fmt::format("ended by a second {}, without saving", name_of(signal));
  const std::lock_guard lock(callbacks_);
  if (second_request_) return second_request_(signal, line);
  write_text(stderr, fmt::format("ddp_train: {}\n", line));
  _exit(128 + signal);
}

// If the launcher dies before getppid(), MPI_Init fails, since it does not find the launcher.
void die_with_launcher() {
  if (!expected_world(environment_of_process())) return;
  const pid_t launcher = getppid();
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != launcher) raise(SIGKILL);
}

}  // namespace ddp
