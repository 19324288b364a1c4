#include "comm/mpi/mpirun.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace ddp {

using std::chrono::milliseconds;

Launcher launcher_of_process() {
  std::string name;
  std::ifstream file("/proc/" + std::to_string(getppid()) + "/comm");
  std::getline(file, name);
  if (name == "orted") return Launcher::daemon;
  return name == "mpirun" || name == "mpiexec" || name == "orterun" ? Launcher::mpirun : Launcher::other;
}

// Its second SIGTERM ends it by force; the ranks have the second in between.
void end_launcher(Launcher launcher) noexcept {
  const pid_t pid = getppid();
  if (launcher == Launcher::other) return;
  if (launcher == Launcher::daemon) std::this_thread::sleep_for(milliseconds(4500));
  using Try = std::pair<int, milliseconds>;
  for (const auto& [signal, patience] : {Try(SIGTERM, 1200), Try(SIGTERM, 500), Try(SIGKILL, 100)}) {
    if (getppid() != pid) return;
    kill(pid, signal);
    std::this_thread::sleep_for(patience);
  }
}

}  // namespace ddp
