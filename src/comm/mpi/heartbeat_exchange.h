// Hosts tell each other what their ranks last said, about twice a second. A host that does not answer holds nobody up:
// at most one message to each is under way, and whoever cannot be sent to or heard is left alone. That the kernel of a
// host answers is news of the host too, not of its ranks.
#pragma once

#include "comm/heartbeat_slot.h"
#include "comm/mpi/host_probe.h"
#include "comm/mpi/progress_engine.h"

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

class HeartbeatExchange final : public PeriodicTask {
 public:
  // `leaders` has the lowest rank of each host in the order of ranks, and becomes this one's; `leader_of` has that
  // rank for each rank; addresses and slots are by rank, and the slots outlive it. The clocks of hosts differ: messages
  // carry ages.
  HeartbeatExchange(MPI_Comm leaders, std::span<const int> leader_of, std::span<const HostAddresses> addresses,
                    std::span<HeartbeatSlot> slots);
  ~HeartbeatExchange() override;

  void run(int64_t now_ns) noexcept override;

  // Says so to other hosts, and waits up to two seconds for them to do so. What then is still under way is cancelled.
  // Not politely: it leaves everything to MPI as it is.
  void close(bool politely) noexcept;

 private:
  struct Entry {
    int64_t step, awaited_step, since_age_ns, alive_age_ns;  // -1: nothing is known of this rank
    int32_t phase, collective, left;
    int32_t last;  // message from there
  };
  struct Peer {
    std::vector<int> ranks;
    std::vector<Entry> incoming, outgoing;
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
    int64_t heard_ns = 0;  // the last message
    std::unique_ptr<HostProbe> probe;
    bool lost = false;  // MPI has reported an error
    bool said_last = false, heard_last = false;
  };
  bool works(Peer& peer, int code);
  void expect(Peer& peer);
  void receive(Peer& peer);
  void send(Peer& peer, bool last);
  void probe(Peer& peer, int64_t now_ns);
  Entry entry_of(const HeartbeatSlot& slot, bool last) const;
  bool finished(Peer& peer);
  int number_of(const Peer& peer) const { return static_cast<int>(&peer - peers_->data()); }

  MPI_Comm leaders_;
  int mine_ = 0;
  std::span<HeartbeatSlot> slots_;
  std::unique_ptr<std::vector<Peer>> peers_;  // in the order of the leaders, this host included
  int64_t next_send_ns_ = 0;
};

}  // namespace ddp
