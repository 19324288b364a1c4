// While MPI starts on a host other than mpirun's: ends this process and its daemon with a message when mpirun's host,
// having answered, has not done so for seven seconds, nor mpirun itself. Only the first rank of a host guards, by the
// launcher's count; the daemon ends the others. Later a HeartbeatTable and a watchdog know more.
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
  void watch(const std::string& addresses, uint16_t port);  // of mpirun: "10.0.0.1,10.1.0.1"

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ddp
