// Signals as requests. They are blocked in all threads and taken by one that waits for them, so nothing is interrupted.
//
//   SIGTERM, SIGINT, SIGUSR1   save and stop; again, a second or more after the first: end at once, without saving
//   SIGUSR2                    write what this rank has been doing
//
// mpirun sends SIGTERM to the ranks of a job that has failed too, a second before it kills them.
//
// SIGPIPE is ignored: a closed pipe is an error of its write.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

class Signals {
 public:
  // Before MPI is initialised and any other thread exists.
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // From any thread.
  bool stop_requested() const { return stop_signal() != nullptr; }
  const char* stop_signal() const { return stop_signal_; }  // the name of the first, such as "SIGTERM"; null before

  // Called from the thread. A setter returns when a call of what was set before has ended.
  void on_dump(std::function<void(int signal)> dump);  // of SIGUSR2 and every SIGTERM; empty: ignored
  // What a second request does, told its number and the line to print, such as "ended by a second SIGTERM, without
  // saving". Empty, as at first: prints the line and ends this process with 128 and the number.
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

// Where a launcher started this process: the kernel kills it when the launcher dies. Call it first in main.
void die_with_launcher();

}  // namespace ddp
