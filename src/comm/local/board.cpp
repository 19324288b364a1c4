#include "comm/local/board.h"

#include "comm/board_cell.h"
#include "core/error.h"

#include <unistd.h>

#include <utility>

namespace ddp {
namespace {

struct Table {
  Table(int size, std::vector<std::string> names, BoardFaults* faults_)
      : cells(size), hosts(std::move(names)), faults(faults_) {
    for (BoardCell& cell : cells) {
      cell.post(0, 0);
      cell.sign_of_life();
    }
  }
  std::vector<BoardCell> cells;
  const std::vector<std::string> hosts;
  BoardFaults* const faults;
};

class LocalBoard final : public Board {
 public:
  LocalBoard(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(table_->cells.size()); }
  const std::string& host_of(int rank) const override { return table_->hosts[rank]; }
  int pid_of(int rank) const override { return here(rank) ? getpid() : 0; }

  void post(int64_t step, int32_t phase) override {
    if (!stopped()) mine().post(step, phase);
  }
  void post_collective(int64_t step, int32_t collective) override {
    if (!stopped()) mine().post_collective(step, collective);
  }
  void sign_of_life() override {
    if (stopped()) return;
    mine().sign_of_life();
    if (!table_->faults || !table_->faults->unreachable[rank_]) mine().heard_ns = steady_ns();
  }
  void leave() override { mine().left = 1; }

  Posting read(int rank) const override { return table_->cells[rank].read(); }
  bool left(int rank) const override { return table_->cells[rank].left != 0; }
  bool dead(int rank) const override {
    return table_->faults && table_->faults->dead[rank] && here(rank) && !left(rank);
  }
  int64_t heard_ns(int rank) const override {
    const bool cut = table_->faults && table_->faults->unreachable[rank];
    return cut && !here(rank) ? table_->cells[rank].heard_ns.load() : steady_ns();
  }

 private:
  BoardCell& mine() { return table_->cells[rank_]; }
  bool here(int rank) const { return table_->hosts[rank] == table_->hosts[rank_]; }
  bool stopped() const { return table_->faults && table_->faults->stopped[rank_]; }

  std::shared_ptr<Table> table_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Board>> make_local_boards(int size, std::vector<std::string> hosts, BoardFaults* faults) {
  if (hosts.empty()) hosts.assign(size, "local");
  DDP_EXPECT(std::ssize(hosts) == size && (!faults || std::ssize(faults->dead) == size));
  const auto table = std::make_shared<Table>(size, std::move(hosts), faults);
  std::vector<std::unique_ptr<Board>> boards;
  for (int rank = 0; rank < size; ++rank) boards.push_back(std::make_unique<LocalBoard>(table, rank));
  return boards;
}

}  // namespace ddp
