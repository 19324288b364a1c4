// Watches mpirun's host while MPI starts on another host. When mpirun's host has answered once, and then neither its
// kernel nor mpirun answers for seven seconds, the watchdog prints a message, ends the mpirun daemon of this host, and
// ends this process with Exit::communication. Only the first rank of a host watches (local rank 0 of the launcher); the
// daemon ends the other ranks. After start-up the HeartbeatTable and the Watchdog of train take over.
#pragma once

#include "comm/mpi/launcher.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

class StartupWatchdog {
 public:
  explicit StartupWatchdog(const Environment& environment);
  ~StartupWatchdog();
  StartupWatchdog(const StartupWatchdog&) = delete;
  StartupWatchdog& operator=(const StartupWatchdog&) = delete;

 private:
  void watch(const std::string& addresses, uint16_t port);  // mpirun's addresses ("10.0.0.1,10.1.0.1") and port

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ddp
