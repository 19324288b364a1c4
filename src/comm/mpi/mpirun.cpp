#include "comm/mpi/mpirun.h"

#include "core/first_line.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace ddp {

using std::chrono::milliseconds;

Parent parent_of_process() {
  using enum Parent::Kind;
  const pid_t pid = getppid();
  const std::string name = first_line("/proc/" + std::to_string(pid) + "/comm");
  const bool is_mpirun = name == "mpirun" || name == "mpiexec" || name == "orterun";
  return {.kind = name == "orted" ? daemon : is_mpirun ? mpirun : other, .pid = pid};
}

// The second SIGTERM ends mpirun by force; the ranks have the time between the two signals to end.
void end_parent(Parent parent) noexcept {
  if (parent.kind == Parent::Kind::other) return;
  if (parent.kind == Parent::Kind::daemon) std::this_thread::sleep_for(milliseconds(4500));
  using Attempt = std::pair<int, milliseconds>;
  for (const auto& [signal, patience] : {Attempt(SIGTERM, 1200), Attempt(SIGTERM, 500), Attempt(SIGKILL, 100)}) {
    if (getppid() != parent.pid) return;
    kill(parent.pid, signal);
    std::this_thread::sleep_for(patience);
  }
}

}  // namespace ddp
