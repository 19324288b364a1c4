// Signals as requests. All threads block them; one thread waits for them, so that no system call is interrupted.
//
//   SIGTERM, SIGINT, SIGHUP, SIGUSR1   save and stop; a second one, at least 1 s after the first: end at once without
//                                      saving
//   SIGUSR2                            write the flight record
//
// mpirun also sends SIGTERM to the ranks of a failed job, 1 s before it kills them.
//
// A process that ignores SIGHUP when it starts, as under nohup, continues to ignore it. SIGPIPE and SIGXFSZ are
// ignored: a write to a closed pipe or beyond the size limit of a file (ulimit -f) returns an error.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

class Signals {
 public:
  // Construct it before MPI is initialised and before any other thread exists.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Callable from any thread. stop_signal(): the name of the first stop signal, such as "SIGTERM"; null: none yet.
  bool stop_requested() const { return stop_signal() != nullptr; }
  const char* stop_signal() const { return stop_signal_; }

  // The signal thread calls these callbacks. A setter waits until a running call of the old callback has returned.
  void on_dump(std::function<void(int signal)> dump);  // called on SIGUSR2 and on each SIGTERM; empty: ignored
  // `end` handles a second stop request. It gets the signal's number and the line to print, such as "ended by a second
  // SIGTERM, without saving". Empty, the default: prints the line and ends this process with exit code 128 + number.
  void on_second_request(std::function<void(int signal, const std::string& line)> end);

 private:
  void wait_for_signals();
  void end_now(int signal);

  std::atomic<const char*> stop_signal_{nullptr};
  std::atomic<bool> ending_{false};
  std::mutex callbacks_;
  std::function<void(int)> dump_;
  std::function<void(int, const std::string&)> second_request_;
  std::thread thread_;
};

// Asks the kernel to kill this process when its launcher dies; does nothing without a launcher. Call it first in main.
void die_with_launcher();

}  // namespace ddp
