#include "app/commands/watch/watch.h"

#include "app/commands/watch/watch_options.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "core/stopwatch.h"
#include "telemetry/status_text.h"
#include "telemetry/terminal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr double kGone = 3;  // seconds; a process of another container may have the same host name

// The status of a run, read again and again.
class Watched {
 public:
  explicit Watched(const std::string& folder) : file_(fs::path(folder) / "status.json") {
    std::error_code error;
    require(fs::is_directory(folder, error), Exit::data, "{} is not the folder of a run", printable(folder));
    require(fs::exists(file_, error), Exit::data,
            "{} has no status.json: no run of this version has trained there, or it has not begun to",
            printable(folder));
    read();
  }

  void read() {
    const std::string subject = printable(file_.native());
    RunStatus read = parse_status(read_whole_file(file_, kMostStatusBytes), subject);
    if (!seen_ || read.written != status_.written) {
      changed_ns_ = steady_ns();
      age_at_change_ =
          seen_ ? 0 : std::max(0.0, wall_seconds() - read.written);  // the clock of the run's host may differ
      seen_ = true;
    }
    status_ = std::move(read);
  }

  const RunStatus& status() const { return status_; }
  Sight sight() const {
    const double age = age_at_change_ + 1e-9 * static_cast<double>(steady_ns() - changed_ns_);
    return {.age = age, .died = status_.state == RunStatus::State::running && age > kGone && is_gone()};
  }

 private:
  bool is_gone() const {
    const bool here =
        status_.host == host_name() && status_.pid > 0 && status_.pid <= std::numeric_limits<pid_t>::max();
    return here && ::kill(static_cast<pid_t>(status_.pid), 0) != 0 && errno == ESRCH;
  }

  const fs::path file_;
  RunStatus status_;
  bool seen_ = false;
  int64_t changed_ns_ = 0;
  double age_at_change_ = 0;
};

// Blocks the signals that end the command, and waits for them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, signal);
    sigprocmask(SIG_BLOCK, &set_, nullptr);
  }
  bool within(std::chrono::milliseconds time) const {
    const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_{};
};

void show(const RunStatus& status, const Sight& sight, const std::shared_ptr<const Terminal>& terminal, bool colour) {
  draw_status([status, sight, terminal, colour] {
    return status_text(status, sight, {.columns = terminal->width(), .rows = terminal->height()}, colour);
  });
}

// Reads again after an error: the file's server may be slow to show the new file in place of the old one.
void read_again(Watched& watched, Stopwatch& good) {
  constexpr double kPatience = 5;
  try {
    watched.read();
    good = {};
  } catch (const Error&) {
    if (good.seconds() > kPatience) throw;
  }
}

void follow(Watched& watched) {
  const EndSignals signals;
  const auto terminal = std::make_shared<const Terminal>();
  const bool colour = has_colour(std::getenv("TERM"), std::getenv("NO_COLOR"));
  Stopwatch good;
  do {
    try {
      read_again(watched, good);
    } catch (const Error&) {
      draw_status(nullptr);
      throw;
    }
    const Sight sight = watched.sight();
    if (watched.status().state != RunStatus::State::running || sight.died) break;
    show(watched.status(), sight, terminal, colour);
  } while (!signals.within(std::chrono::milliseconds(500)));
  draw_status(nullptr);
  write_output(stdout,
               status_text(watched.status(), watched.sight(),
                           {.columns = terminal->width(), .rows = std::numeric_limits<int>::max()}, colour),
               "the state of the run");
}

}  // namespace

Exit watch(std::span<const std::string> arguments) {
  std::optional<std::string> answer;
  const WatchOptions options = parse_watch_options(arguments, answer);
  if (answer) {
    write_output(stdout, *answer, "the output");
    return Exit::done;
  }
  Watched watched(options.run);
  if (destination_of(STDOUT_FILENO) == Destination::terminal && can_draw(std::getenv("TERM"))) {
    follow(watched);
    return Exit::done;
  }
  constexpr TextSize kUnlimited{.columns = 1000, .rows = std::numeric_limits<int>::max()};
  write_output(stdout, status_text(watched.status(), watched.sight(), kUnlimited, false), "the state of the run");
  return Exit::done;
}

}  // namespace ddp
