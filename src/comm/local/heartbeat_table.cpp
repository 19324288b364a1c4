#include "comm/local/heartbeat_table.h"

#include "comm/heartbeat/heartbeat_slot.h"
#include "core/error.h"

#include <unistd.h>

#include <utility>

namespace ddp {
namespace {

struct Table {
  Table(int size, std::vector<std::string> names, HeartbeatFaults* faults_)
      : slots(size), hosts(std::move(names)), faults(faults_) {
    for (HeartbeatSlot& slot : slots) {
      slot.publish(0, 0);
      slot.sign_of_life();
    }
  }
  std::vector<HeartbeatSlot> slots;
  const std::vector<std::string> hosts;
  HeartbeatFaults* const faults;
};

class LocalHeartbeatTable final : public HeartbeatTable {
 public:
  LocalHeartbeatTable(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(table_->slots.size()); }
  const std::string& host_of(int rank) const override { return table_->hosts[rank]; }
  int pid_of(int rank) const override { return same_host(rank) ? getpid() : 0; }

  void publish(int64_t step, int32_t phase) override {
    if (!stopped()) my_slot().publish(step, phase);
  }
  void publish_collective(int64_t step, int32_t collective) override {
    if (!stopped()) my_slot().publish_collective(step, collective);
  }
  void sign_of_life() override {
    if (stopped()) return;
    my_slot().sign_of_life();
    if (!table_->faults || !table_->faults->unreachable[rank_]) my_slot().heard_ns = steady_ns();
  }
  void leave() override { my_slot().left = 1; }

  int64_t awake_since_ns() const override { return table_->slots[rank_].awake_since_ns; }
  Heartbeat read(int rank) const override { return table_->slots[rank].read(); }
  bool left(int rank) const override { return table_->slots[rank].left != 0; }
  bool dead(int rank) const override {
    return table_->faults && table_->faults->dead[rank] && same_host(rank) && !left(rank);
  }
  int64_t heard_ns(int rank) const override {
    const bool cut = table_->faults && table_->faults->unreachable[rank];
    return cut && !same_host(rank) ? table_->slots[rank].heard_ns.load() : steady_ns();
  }

 private:
  HeartbeatSlot& my_slot() { return table_->slots[rank_]; }
  bool same_host(int rank) const { return table_->hosts[rank] == table_->hosts[rank_]; }
  bool stopped() const { return table_->faults && table_->faults->stopped[rank_]; }

  std::shared_ptr<Table> table_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<HeartbeatTable>> make_local_heartbeat_tables(int size, std::vector<std::string> hosts,
                                                                         HeartbeatFaults* faults) {
  if (hosts.empty()) hosts.assign(size, "local");
  DDP_EXPECT(std::ssize(hosts) == size && (!faults || std::ssize(faults->dead) == size));
  const auto table = std::make_shared<Table>(size, std::move(hosts), faults);
  std::vector<std::unique_ptr<HeartbeatTable>> tables;
  for (int rank = 0; rank < size; ++rank) tables.push_back(std::make_unique<LocalHeartbeatTable>(table, rank));
  return tables;
}

}  // namespace ddp
