// The latest heartbeat of every rank, also of a stopped or dead rank. Any rank can read it at any time: no other rank
// has to answer. Ranks of one host share memory. Hosts exchange heartbeats about twice a second; no rank waits for
// them.
#pragma once

#include <cstdint>
#include <string>

namespace ddp {

// Time without news of a host after which the host is probed, counts as silent, and counts as unreachable. The
// keepalives that launch/run sets for mpirun take longer.
inline constexpr int64_t kProbeAfter_ns = 1'500'000'000, kSilent_ns = 3'000'000'000, kUnreachable_ns = 7'000'000'000;

// Time between two checks, or two signs of life of this rank, which shows that its process or host was suspended.
inline constexpr int64_t kSuspended_ns = 2'100'000'000;

struct Heartbeat {
  int64_t step = 0;          // step of the phase
  int32_t phase = 0;         // number that the caller of publish() defines
  int32_t collective = 0;    // index of the awaited collective within awaited_step
  int64_t awaited_step = 0;  // step of the awaited collective; 0: unknown
  // Times of this host's steady clock, also for ranks of other hosts.
  int64_t since_ns = 0;  // start of the phase
  int64_t alive_ns = 0;  // last sign of life; 0: no heartbeat of this rank has ever come
};

class HeartbeatTable {
 public:
  virtual ~HeartbeatTable() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host_of(int rank) const = 0;
  virtual int pid_of(int rank) const = 0;  // 0: unknown, always so for ranks of other hosts

  // These calls write this rank's heartbeat; none blocks or allocates. publish() starts a phase now. Any thread may
  // call publish_collective() and sign_of_life().
  virtual void publish(int64_t step, int32_t phase) = 0;
  virtual void publish_collective(int64_t step, int32_t collective) = 0;
  virtual void sign_of_life() = 0;
  virtual void leave() = 0;  // this rank ends and has reported any error: other ranks do not report it as dead

  // Any thread may call these.
  virtual int64_t awake_since_ns() const = 0;  // when this rank continued after its last suspension; 0: none
  virtual Heartbeat read(int rank) const = 0;
  virtual bool left(int rank) const = 0;         // the rank has called leave()
  virtual bool dead(int rank) const = 0;         // the rank's process, on this host, has ended without leave()
  virtual int64_t heard_ns(int rank) const = 0;  // time of the last news of the rank's host; for this host: now
};

}  // namespace ddp
