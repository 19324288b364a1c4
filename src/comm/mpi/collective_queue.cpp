#include "comm/mpi/collective_queue.h"

#include "comm/add.h"
#include "comm/mpi/check.h"
#include "core/error.h"
#include "core/stopwatch.h"

#include <functional>
#include <limits>

namespace ddp {
namespace {

void add_bf16(void* in, void* in_out, int* count, MPI_Datatype*) { add(in_out, in, *count, DType::bf16); }

int checked_count(const DeviceSpan& span) {
  require(span.count <= std::numeric_limits<int>::max(), Exit::usage,
          "a collective of {} elements is too large for one call of MPI; --allreduce auto needs no such call for sums",
          span.count);
  return static_cast<int>(span.count);
}

bool overlap(const DeviceSpan& a, const DeviceSpan& b) {
  const auto *const a_begin = static_cast<char*>(a.data), *const b_begin = static_cast<char*>(b.data);
  const std::less<> before;
  return before(a_begin, b_begin + b.count * size_of(b.dtype)) && before(b_begin, a_begin + a.count * size_of(a.dtype));
}

MPI_Datatype type_of(DType dtype) { return dtype == DType::f32 ? MPI_FLOAT : MPI_UINT16_T; }

}  // namespace

CollectiveQueue::CollectiveQueue(MPI_Comm parent, const HostWindow& host, Allreduce allreduce)
    : lane_(host.lane), allreduce_(allreduce), queue_(64) {
  DDP_MPI(MPI_Comm_dup(parent, &comm_));
  DDP_MPI(MPI_Op_create(add_bf16, 1, &add_bf16_));
  for (int i = 0; i < kWindow; ++i) slots_.push_back({.window = host.collective(i)});
}

CollectiveQueue::~CollectiveQueue() {
  if (idle()) {
    MPI_Op_free(&add_bf16_);
    MPI_Comm_free(&comm_);
    if (lane_ != MPI_COMM_NULL) MPI_Comm_free(&lane_);
  } else {
    for (Slot& slot : slots_) slot.window->abandon();
  }
}

Communicator::Sequence CollectiveQueue::push(const Collective& next) {
  if (issued_ - completed_ == queue_.size()) {
    std::vector<Collective> larger(2 * queue_.size());
    for (auto n = completed_ + 1; n <= issued_; ++n) larger[n % larger.size()] = queue_[n % queue_.size()];
    queue_.swap(larger);
  }
  ++issued_;
  queue_[issued_ % queue_.size()] = next;
  if (!done_ns_.empty()) done_ns_[issued_ % done_ns_.size()] = 0;
  launch_eligible();
  return issued_;
}

bool CollectiveQueue::advance() {
  bool moved = false;
  for (auto n = completed_ + 1; n <= launched_; ++n) {
    Slot& slot = slot_of(n);
    if (!slot.done && advance(slot)) {
      moved = true;
      if (slot.done && !done_ns_.empty()) done_ns_[n % done_ns_.size()] = steady_ns();
    }
  }
  while (completed_ < launched_ && slot_of(completed_ + 1).done) ++completed_;
  launch_eligible();
  return moved;
}

std::optional<int64_t> CollectiveQueue::done_ns(Communicator::Sequence n) const {
  if (done_ns_.empty() || n > completed_ || n + done_ns_.size() <= issued_ || done_ns_[n % done_ns_.size()] == 0)
    return std::nullopt;
  return done_ns_[n % done_ns_.size()];
}

// The next collective waits for room in the window and for collectives under way whose spans overlap its span.
void CollectiveQueue::launch_eligible() {
  while (launched_ < issued_ && launched_ - completed_ < kWindow) {
    for (auto n = completed_ + 1; n <= launched_; ++n)
      if (overlap(collective(n).span, collective(launched_ + 1).span)) return;
    launch();
  }
}

void CollectiveQueue::launch() {
  const auto n = ++launched_;
  const auto& [kind, span, root] = collective(n);
  Slot& slot = slot_of(n);
  slot.done = false;
  slot.in_mpi =
      kind == Collective::Kind::broadcast || (kind == Collective::Kind::all_reduce && allreduce_ == Allreduce::mpi);
  DDP_EXPECT(!slot.in_mpi || !span.residual);
  if (kind == Collective::Kind::broadcast) {
    DDP_MPI(MPI_Ibcast(span.data, checked_count(span), type_of(span.dtype), root, comm_, &slot.request));
  } else if (slot.in_mpi) {
    const MPI_Op op = span.dtype == DType::f32 ? MPI_SUM : add_bf16_;
    DDP_MPI(
        MPI_Iallreduce(MPI_IN_PLACE, span.data, checked_count(span), type_of(span.dtype), op, comm_, &slot.request));
  } else {
    slot.window->start(collective(n));
  }
}

bool CollectiveQueue::advance(Slot& slot) {
  if (!slot.in_mpi) {
    const int64_t before = slot.window->moves();
    slot.done = slot.window->advance();
    return slot.done || slot.window->moves() != before;
  }
  int done = 0;
  DDP_MPI(MPI_Test(&slot.request, &done, MPI_STATUS_IGNORE));
  slot.done = done != 0;
  return slot.done;
}

}  // namespace ddp
