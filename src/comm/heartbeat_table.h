// What every rank last said of itself, for all others to read at any time, even of a rank that is stopped or dead:
// nobody has to answer. Ranks of a host share memory; hosts tell each other about twice a second, by messages that
// nobody waits for.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

// For how long nothing is heard of a host: until it is asked for a sign of life; until it counts as silent; until it
// cannot be reached. mpirun's keepalives in launch/run come later.
inline constexpr int64_t kProbeAfter_ns = 1'500'000'000, kSilent_ns = 3'000'000'000, kUnreachable_ns = 7'000'000'000;

struct Heartbeat {
  int64_t step = 0;          // of the phase
  int32_t phase = 0;         // the caller's
  int32_t collective = 0;    // of the awaited step: which one is awaited
  int64_t awaited_step = 0;  // 0: nothing is known of collectives
  // Of this host's steady clock, also for ranks of other hosts.
  int64_t since_ns = 0;  // when the phase began
  int64_t alive_ns = 0;  // the last sign of life; 0: nothing was ever heard of this rank
};

class HeartbeatTable {
 public:
  virtual ~HeartbeatTable() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host_of(int rank) const = 0;
  virtual int pid_of(int rank) const = 0;  // 0: not known, as for ranks of other hosts

  // Of this rank; neither blocks nor allocates. A phase begins now; its collective is told from any thread.
  virtual void publish(int64_t step, int32_t phase) = 0;
  virtual void publish_collective(int64_t step, int32_t collective) = 0;
  virtual void sign_of_life() = 0;
  virtual void leave() = 0;  // this rank ends and has said why, if there was reason to: it is not reported as dead

  // From any thread.
  virtual Heartbeat read(int rank) const = 0;
  virtual bool left(int rank) const = 0;
  virtual bool dead(int rank) const = 0;         // its process, on this host, has ended without leave()
  virtual int64_t heard_ns(int rank) const = 0;  // when news of its host last came; now for this host
};

}  // namespace ddp
