#include "comm/mpi/heartbeat_table.h"

#include "comm/heartbeat/host_probe.h"
#include "comm/heartbeat/shared_slots.h"
#include "comm/mpi/check.h"
#include "comm/mpi/heartbeat_exchange.h"

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
struct HostMap {
  HostMap(MPI_Comm world, int colour, const std::string& name) {
    struct Entry {
      int colour;
      std::array<char, 256> name;
      HostAddresses addresses;
    };
    int size = 0;
    DDP_MPI(MPI_Comm_size(world, &size));
    Entry mine{colour, {}, addresses_of_this_host()};
    name.copy(mine.name.data(), mine.name.size() - 1);
    std::vector<Entry> all(size);
    DDP_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, world));
    std::map<std::string, int> colour_of;
    for (int r = 0; r < size; ++r) {
      const auto first =
          std::find_if(all.begin(), all.end(), [&](const Entry& p) { return p.colour == all[r].colour; });
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

std::unique_ptr<SharedSlots> share_slots(MPI_Comm host, int count) {
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
      : engine_(engine), hosts_(world, colour, name) {
    DDP_MPI(MPI_Comm_rank(world, &rank_));
    const Group host(world, colour, rank_);
    shared_ = share_slots(host.get(), size());
    slots_ = shared_->slots();
    my_slot().pid = static_cast<int32_t>(getpid());
    my_slot().publish(0, 0);
    my_slot().sign_of_life();
    DDP_MPI(MPI_Barrier(host.get()));
    shared_->hide();
    processes_.resize(size());
    for (int r = 0; r < size(); ++r)
      if (same_host(r) && r != rank_ && slots_[r].pid != 0) processes_[r] = ProcessHandle(slots_[r].pid);
    start_exchange(world);
  }
  ~MpiHeartbeatTable() override {
    leave();
    if (!exchange_) return;
    engine_.detach(*exchange_);
    exchange_->close(!engine_.abandoned());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hosts_.host.size()); }
  const std::string& host_of(int rank) const override { return hosts_.host[rank]; }
  int pid_of(int rank) const override { return same_host(rank) ? slots_[rank].pid.load() : 0; }

  void publish(int64_t step, int32_t phase) override { my_slot().publish(step, phase); }
  void publish_collective(int64_t step, int32_t collective) override { my_slot().publish_collective(step, collective); }
  void sign_of_life() override { my_slot().sign_of_life(); }
  void leave() override { my_slot().left = 1; }

  int64_t awake_since_ns() const override { return slots_[rank_].awake_since_ns; }
  Heartbeat read(int rank) const override { return slots_[rank].read(); }
  bool left(int rank) const override { return slots_[rank].left != 0; }
  bool dead(int rank) const override { return processes_[rank].ended() && !left(rank); }
  int64_t heard_ns(int rank) const override { return same_host(rank) ? steady_ns() : slots_[rank].heard_ns.load(); }

 private:
  HeartbeatSlot& my_slot() { return slots_[rank_]; }
  bool same_host(int rank) const { return hosts_.leader_of[rank] == hosts_.leader_of[rank_]; }

  // The lowest rank of each host exchanges heartbeats with the other hosts.
  void start_exchange(MPI_Comm world) {
    const auto& leader_of = hosts_.leader_of;
    if (std::all_of(leader_of.begin(), leader_of.end(), [](int leader) { return leader == 0; })) return;
    const bool leads = leader_of[rank_] == rank_;
    MPI_Comm leaders = MPI_COMM_NULL;
    DDP_MPI(MPI_Comm_split(world, leads ? 0 : MPI_UNDEFINED, rank_, &leaders));
    if (!leads) return;
    exchange_.emplace(leaders, leader_of, hosts_.addresses, slots_);
    engine_.attach(*exchange_);
  }

  ProgressEngine& engine_;
  HostMap hosts_;
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
