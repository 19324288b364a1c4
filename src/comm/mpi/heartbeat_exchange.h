// Exchanges heartbeats between hosts, about twice a second. The lowest rank of each host, its leader, sends and
// receives for all ranks of that host. A host that does not answer delays no other host: at most one message to each
// host is under way, and after an MPI error the exchange ignores that host. An answer of a host's kernel (HostProbe)
// counts as news of the host, not of its ranks.
#pragma once

#include "comm/heartbeat/heartbeat_slot.h"
#include "comm/heartbeat/host_probe.h"
#include "comm/mpi/progress_engine.h"

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ddp {

class HeartbeatExchange final : public PeriodicTask {
 public:
  // `leaders` contains the leaders of all hosts in the order of ranks; the exchange owns and frees it. leader_of[r] is
  // the leader of rank r's host. Addresses and slots are indexed by rank; the slots must outlive the exchange. The
  // clocks of hosts differ, so messages carry ages, not times.
  HeartbeatExchange(MPI_Comm leaders, std::span<const int> leader_of, std::span<const HostAddresses> addresses,
                    std::span<HeartbeatSlot> slots);
  ~HeartbeatExchange() override;

  void run(int64_t now_ns) noexcept override;

  // Graceful: sends a last message to every other host, waits up to two seconds for theirs, then cancels the messages
  // that are still under way. Not graceful: leaves messages, buffers and communicator to MPI.
  void close(bool graceful) noexcept;

 private:
  struct Entry {
    int64_t step, awaited_step, since_age_ns, alive_age_ns;  // alive_age_ns -1: no heartbeat of this rank has come
    int32_t phase, collective, left;
    int32_t last;  // 1: the sender sends nothing after this message
  };
  struct Peer {
    std::vector<int> ranks;
    std::vector<Entry> incoming, outgoing;
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
    int64_t heard_ns = 0;  // time of the last message
    std::unique_ptr<HostProbe> probe;
    bool lost = false;  // MPI has reported an error
    bool last_sent = false, last_received = false;
  };
  bool succeeded(Peer& peer, int code);
  void post_receive(Peer& peer);
  void receive(Peer& peer);
  void send(Peer& peer, bool last);
  void probe(Peer& peer, int64_t now_ns);
  Entry entry_of(const HeartbeatSlot& slot, bool last) const;
  bool finished(Peer& peer);
  int index_of(const Peer& peer) const { return static_cast<int>(&peer - peers_->data()); }

  MPI_Comm leaders_;
  int my_index_ = 0;
  std::span<HeartbeatSlot> slots_;
  std::unique_ptr<std::vector<Peer>> peers_;  // in the order of `leaders`, this host included
  int64_t next_send_ns_ = 0;
};

}  // namespace ddp
