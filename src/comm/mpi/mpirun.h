// The launcher that started this process, where that is mpirun or its daemon on this host. Told to abort a job, mpirun
// waits for the daemons of all hosts: a quarter of an hour for one that cannot be reached.
#pragma once

namespace ddp {

struct Parent {
  enum class Kind { other, mpirun, daemon } kind = Kind::other;
  int pid = 0;
};

Parent parent_of_process();

// Ends mpirun in two seconds at most, and with it all ranks of this host, which it asks first (SIGTERM); its exit code
// is then 1. A daemon has four and a half more: where mpirun runs on a third host and notices the cut by itself, as
// launch/run lets it, that ends all. Returns where it has not ended. Signals nothing that is no longer this one's
// parent.
void end_parent(Parent parent) noexcept;

}  // namespace ddp
