#include "comm/mpi/heartbeat_exchange.h"

#include "comm/mpi/check.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

namespace ddp {
namespace {

constexpr int64_t kSendEvery_ns = 500'000'000;
constexpr int64_t kCloseTimeout_ns = 2'000'000'000;
constexpr int kMaxMessages = 16;  // largest number of messages from one peer in one call of receive()

}  // namespace

HeartbeatExchange::HeartbeatExchange(MPI_Comm leaders, std::span<const int> leader_of,
                                     std::span<const HostAddresses> addresses, std::span<HeartbeatSlot> slots)
    : leaders_(leaders), slots_(slots), peers_(std::make_unique<std::vector<Peer>>()) {
  DDP_MPI(MPI_Comm_rank(leaders_, &my_index_));
  std::map<int, std::vector<int>> ranks;  // by leader
  for (int r = 0; r < std::ssize(leader_of); ++r) ranks[leader_of[r]].push_back(r);
  for (auto& [leader, members] : ranks)
    peers_->push_back({.ranks = members, .incoming = {}, .outgoing = {}, .probe = nullptr});

  const std::vector<int> here = (*peers_)[my_index_].ranks;
  for (Peer& peer : *peers_) {
    if (index_of(peer) == my_index_) continue;
    peer.incoming.resize(peer.ranks.size());
    peer.outgoing.resize(here.size());
    peer.heard_ns = steady_ns();
    peer.probe = std::make_unique<HostProbe>(addresses[peer.ranks[0]]);
    for (const int r : peer.ranks) {  // all ranks have just taken part in a collective
      slots_[r].publish(0, 0);
      slots_[r].sign_of_life();
      slots_[r].heard_ns = peer.heard_ns;
    }
    post_receive(peer);
  }
}

HeartbeatExchange::~HeartbeatExchange() { close(false); }

void HeartbeatExchange::run(int64_t now_ns) noexcept {
  const bool due = now_ns >= next_send_ns_;
  if (due) next_send_ns_ = now_ns + kSendEvery_ns;
  for (Peer& peer : *peers_) {
    if (index_of(peer) == my_index_) continue;
    receive(peer);
    if (due) send(peer, false);
    if (peer.last_received)  // the host has closed its exchange and sends no more news of its ranks
      for (const int rank : peer.ranks) slots_[rank].heard_ns = now_ns;
    if (now_ns - peer.heard_ns > kProbeAfter_ns && !peer.last_received) probe(peer, now_ns);
  }
}

// After an MPI error the exchange ignores that host; the watchdog reports that there is no news of it.
bool HeartbeatExchange::succeeded(Peer& peer, int code) {
  peer.lost |= code != MPI_SUCCESS;
  return !peer.lost;
}

void HeartbeatExchange::post_receive(Peer& peer) {
  succeeded(peer, MPI_Irecv(peer.incoming.data(), static_cast<int>(peer.incoming.size() * sizeof(Entry)), MPI_BYTE,
                            index_of(peer), 0, leaders_, &peer.receive));
}

void HeartbeatExchange::receive(Peer& peer) {
  for (int i = 0; i < kMaxMessages && !peer.lost && !peer.last_received; ++i) {
    int done = 0;
    if (!succeeded(peer, MPI_Test(&peer.receive, &done, MPI_STATUS_IGNORE)) || !done) return;
    const int64_t now_ns = peer.heard_ns = steady_ns();
    for (size_t j = 0; j < peer.ranks.size(); ++j) {
      const Entry& entry = peer.incoming[j];
      HeartbeatSlot& slot = slots_[peer.ranks[j]];
      slot.publish(entry.step, entry.phase, now_ns - entry.since_age_ns);
      slot.publish_collective(entry.awaited_step, entry.collective);
      slot.alive_ns = entry.alive_age_ns < 0 ? 0 : now_ns - entry.alive_age_ns;
      slot.heard_ns = now_ns;
      slot.left = entry.left;
      peer.last_received |= entry.last != 0;
    }
    if (!peer.last_received) post_receive(peer);
  }
}

void HeartbeatExchange::send(Peer& peer, bool last) {
  int done = 0;
  if (peer.lost || peer.last_sent || !succeeded(peer, MPI_Test(&peer.send, &done, MPI_STATUS_IGNORE)) || !done) return;
  const std::vector<int>& here = (*peers_)[my_index_].ranks;
  std::transform(here.begin(), here.end(), peer.outgoing.begin(),
                 [&](int rank) { return entry_of(slots_[rank], last); });
  peer.last_sent = last;
  succeeded(peer, MPI_Isend(peer.outgoing.data(), static_cast<int>(peer.outgoing.size() * sizeof(Entry)), MPI_BYTE,
                            index_of(peer), 0, leaders_, &peer.send));
}

void HeartbeatExchange::probe(Peer& peer, int64_t now_ns) {
  if (!peer.probe->answered(now_ns)) return;
  for (const int rank : peer.ranks) slots_[rank].heard_ns = now_ns;
}

HeartbeatExchange::Entry HeartbeatExchange::entry_of(const HeartbeatSlot& slot, bool last) const {
  const Heartbeat heartbeat = slot.read();
  const int64_t now_ns = steady_ns();
  return {.step = heartbeat.step,
          .awaited_step = heartbeat.awaited_step,
          .since_age_ns = now_ns - heartbeat.since_ns,
          .alive_age_ns = heartbeat.alive_ns == 0 ? -1 : now_ns - heartbeat.alive_ns,
          .phase = heartbeat.phase,
          .collective = heartbeat.collective,
          .left = slot.left,
          .last = last};
}

bool HeartbeatExchange::finished(Peer& peer) {
  int sent = 0;
  return index_of(peer) == my_index_ || (peer.last_sent && peer.last_received &&
                                         succeeded(peer, MPI_Test(&peer.send, &sent, MPI_STATUS_IGNORE)) && sent);
}

// After a last message in both directions nothing is under way. Otherwise MPI may still use the buffers and the
// communicator: they are leaked.
void HeartbeatExchange::close(bool graceful) noexcept {
  if (!peers_) return;
  bool all_finished = false;
  for (const int64_t begin = steady_ns(); graceful && !all_finished && steady_ns() - begin < kCloseTimeout_ns;) {
    all_finished = true;
    for (Peer& peer : *peers_) {
      if (index_of(peer) == my_index_) continue;
      receive(peer);
      send(peer, true);
      all_finished &= finished(peer) || peer.lost;
    }
    if (!all_finished) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  all_finished = graceful && std::all_of(peers_->begin(), peers_->end(), [&](Peer& peer) { return finished(peer); });
  if (all_finished) {
    peers_.reset();
    MPI_Comm_free(&leaders_);
    return;
  }
  for (Peer& peer : *peers_) {
    if (!graceful) continue;
    if (peer.receive != MPI_REQUEST_NULL) {
      MPI_Cancel(&peer.receive);
      MPI_Request_free(&peer.receive);
    }
    if (peer.send != MPI_REQUEST_NULL) MPI_Request_free(&peer.send);
  }
  static_cast<void>(peers_.release());
}

}  // namespace ddp
