// While MPI starts on a host other than mpirun's: ends this process and its daemon with a message when mpirun's host,
// having answered, has not done so for seven seconds. Later a Board and a watchdog know more.
#pragma once

#include "comm/mpi/host_probe.h"
#include "comm/mpi/launcher.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

class StartGuard {
 public:
  explicit StartGuard(const Environment& environment);
  ~StartGuard();
  StartGuard(const StartGuard&) = delete;
  StartGuard& operator=(const StartGuard&) = delete;

 private:
  void watch();

  std::string addresses_;  // of mpirun's host: "10.0.0.1,10.1.0.1"; empty: not known
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ddp
