#include "comm/mpi/heartbeat_table.h"

#include "comm/mpi/check.h"
#include "comm/mpi/heartbeat_exchange.h"
#include "comm/mpi/host_probe.h"
#include "comm/shared_slots.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

namespace ddp {
namespace {

class Group {  // owner of a split communicator
 public:
  Group(MPI_Comm parent, int colour, int key) { DDP_MPI(MPI_Comm_split(parent, colour, key, &comm_)); }
  ~Group() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  MPI_Comm get() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

// The host of every rank. A second host with the same name gets the suffix "#<its lowest rank>".
struct Places {
  Places(MPI_Comm world, int colour, const std::string& name) {
    struct Place {
      int colour;
      std::array<char, 256> name;
      HostAddresses addresses;
    };
    int size = 0;
    DDP_MPI(MPI_Comm_size(world, &size));
    Place mine{colour, {}, addresses_of_this_host()};
    name.copy(mine.name.data(), mine.name.size() - 1);
    std::vector<Place> all(size);
    DDP_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, world));
    std::map<std::string, int> colour_of;
    for (int r = 0; r < size; ++r) {
      const auto first =
          std::find_if(all.begin(), all.end(), [&](const Place& p) { return p.colour == all[r].colour; });
      const auto leader = static_cast<int>(first - all.begin());
      const bool taken = colour_of.try_emplace(all[r].name.data(), all[r].colour).first->second != all[r].colour;
      host.push_back(taken ? fmt::format("{}#{}", all[r].name.data(), leader) : all[r].name.data());
      leader_of.push_back(leader);
      addresses.push_back(all[r].addresses);
    }
  }
  std::vector<std::string> host;
  std::vector<int> leader_of;
  std::vector<HostAddresses> addresses;
};

std::unique_ptr<SharedSlots> share_cells(MPI_Comm host, int count) {
  int local_rank = 0;
  DDP_MPI(MPI_Comm_rank(host, &local_rank));
  std::unique_ptr<SharedSlots> slots;
  SharedSlots::Key key;
  if (local_rank == 0) {
    slots = std::make_unique<SharedSlots>(count);
    key = slots->key();
  }
  DDP_MPI(MPI_Bcast(&key, sizeof key, MPI_BYTE, 0, host));
  if (local_rank != 0) slots = std::make_unique<SharedSlots>(key, count);
  return slots;
}

class MpiHeartbeatTable final : public HeartbeatTable {
 public:
  MpiHeartbeatTable(MPI_Comm world, int colour, const std::string& name, ProgressEngine& engine)
      : engine_(engine), places_(world, colour, name) {
    DDP_MPI(MPI_Comm_rank(world, &rank_));
    const Group host(world, colour, rank_);
    shared_ = share_cells(host.get(), size());
    slots_ = shared_->slots();
    mine().pid = static_cast<int32_t>(getpid());
    mine().publish(0, 0);
    mine().sign_of_life();
    DDP_MPI(MPI_Barrier(host.get()));
    shared_->hide();
    processes_.resize(size());
    for (int r = 0; r < size(); ++r)
      if (here(r) && r != rank_ && slots_[r].pid != 0) processes_[r] = ProcessHandle(slots_[r].pid);
    exchange_hosts(world);
  }
  ~MpiHeartbeatTable() override {
    leave();
    if (!exchange_) return;
    engine_.detach(*exchange_);
    exchange_->close(!engine_.abandoned());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(places_.host.size()); }
  const std::string& host_of(int rank) const override { return places_.host[rank]; }
  int pid_of(int rank) const override { return here(rank) ? slots_[rank].pid.load() : 0; }

  void publish(int64_t step, int32_t phase) override { mine().publish(step, phase); }
  void publish_collective(int64_t step, int32_t collective) override { mine().publish_collective(step, collective); }
  void sign_of_life() override { mine().sign_of_life(); }
  void leave() override { mine().left = 1; }

  Heartbeat read(int rank) const override { return slots_[rank].read(); }
  bool left(int rank) const override { return slots_[rank].left != 0; }
  bool dead(int rank) const override { return processes_[rank].ended() && !left(rank); }
  int64_t heard_ns(int rank) const override { return here(rank) ? steady_ns() : slots_[rank].heard_ns.load(); }

 private:
  HeartbeatSlot& mine() { return slots_[rank_]; }
  bool here(int rank) const { return places_.leader_of[rank] == places_.leader_of[rank_]; }

  // The lowest rank of each host exchanges heartbeats with the other hosts.
  void exchange_hosts(MPI_Comm world) {
    const auto& leader_of = places_.leader_of;
    if (std::all_of(leader_of.begin(), leader_of.end(), [](int leader) { return leader == 0; })) return;
    const bool leads = leader_of[rank_] == rank_;
    MPI_Comm leaders = MPI_COMM_NULL;
    DDP_MPI(MPI_Comm_split(world, leads ? 0 : MPI_UNDEFINED, rank_, &leaders));
    if (!leads) return;
    exchange_.emplace(leaders, leader_of, places_.addresses, slots_);
    engine_.attach(*exchange_);
  }

  ProgressEngine& engine_;
  Places places_;
  int rank_ = 0;
  std::unique_ptr<SharedSlots> shared_;
  std::span<HeartbeatSlot> slots_;  // by rank
  std::vector<ProcessHandle> processes_;
  std::optional<HeartbeatExchange> exchange_;
};

}  // namespace

std::unique_ptr<HeartbeatTable> make_mpi_heartbeat_table(MPI_Comm world, int host_colour, const std::string& host_name,
                                                         ProgressEngine& engine) {
  return std::make_unique<MpiHeartbeatTable>(world, host_colour, host_name, engine);
}

}  // namespace ddp
