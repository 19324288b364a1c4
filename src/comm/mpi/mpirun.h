// The parent of this process, if it is mpirun or the mpirun daemon of this host. When a job aborts, mpirun waits for
// the daemons of all hosts: a quarter of an hour for a host that cannot be reached. So a rank ends its parent itself.
#pragma once

namespace ddp {

struct Parent {
  enum class Kind { other, mpirun, daemon } kind = Kind::other;
  int pid = 0;
};

Parent parent_of_process();

// Ends mpirun within two seconds, and with it all ranks of this host, to which mpirun sends SIGTERM first; the exit
// code of mpirun is then 1. A daemon gets 4.5 seconds more before the first signal: mpirun on a third host may notice
// the cut itself (launch/run sets keepalives for that) and end the whole job. Returns at once for any other parent, and
// when the parent has not ended after the last signal. Signals no process that is no longer this process's parent.
void end_parent(Parent parent) noexcept;

}  // namespace ddp
