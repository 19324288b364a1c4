#include "comm/shm/window.h"

#include "core/error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace ddp {
namespace {

constexpr const char* kName = "ddp_train gradients";
constexpr size_t kPage = 4096;

size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

// The head: the slots of every rank, the keys of every rank, then from the next page on the staging memory of every
// rank.
size_t Window::head_bytes(int ranks) {
  return round_up(ranks * (kSlots * sizeof(Slot) + sizeof(SharedKey)), kPage) + ranks * kSlots * 2 * kStagingBytes;
}

Window::Window(std::shared_ptr<std::byte> head, int rank, int ranks, const BlockRule& rule, All all)
    : head_(std::move(head)), rank_(rank), ranks_(ranks), rule_(rule), all_(std::move(all)) {}

Window::Window(const BlockRule& rule) : Window(make_window_head(1), 0, 1, rule, nullptr) {}

Window::Slot& Window::slot(int rank, int number) const {
  return reinterpret_cast<Slot*>(head_.get())[rank * kSlots + number];
}

Window::SharedKey& Window::shared_key(int rank) const {
  return reinterpret_cast<SharedKey*>(head_.get() + ranks_ * kSlots * sizeof(Slot))[rank];
}

std::byte* Window::staging(int rank, int number, int half) const {
  return head_.get() + head_bytes(ranks_) - ((ranks_ - rank) * kSlots * 2 - number * 2 - half) * kStagingBytes;
}

void* Window::allocate(size_t bytes) {
  const auto free = std::ranges::find(allocations_, nullptr, &Allocation::mine);
  if (free == allocations_.end()) return own_.allocate(bytes);
  Allocation allocation{.bytes = bytes};
  if (all_ && share(allocation)) {
    allocation.mine = allocation.data[rank_];
  } else {
    allocation.mine = own_.allocate(bytes);
    if (!all_) allocation.data = {static_cast<std::byte*>(allocation.mine)};
  }
  const std::lock_guard lock(mutex_);
  *free = std::move(allocation);
  return free->mine;
}

void Window::deallocate(void* memory) noexcept {
  const auto found = std::ranges::find(allocations_, memory, &Allocation::mine);
  if (found == allocations_.end() || found->maps.empty()) own_.deallocate(memory);
  if (found == allocations_.end()) return;
  const std::lock_guard lock(mutex_);
  *found = {};
}

// Shares the memory of every rank of this host; false if a rank of any host cannot do so.
bool Window::share(Allocation& allocation) const {
  const size_t bytes = std::max(kPage, round_up(allocation.bytes, kPage));
  SharedMemory mine(kName, bytes);
  shared_key(rank_) = {mine.key(), mine.data()};
  if (!all_(static_cast<bool>(mine))) return false;
  bool mapped = true;
  for (int r = 0; r < ranks_; ++r) {
    const SharedKey& other = shared_key(r);
    if (r != rank_ && other.key.pid == getpid()) {
      allocation.data.push_back(other.address);
      continue;
    }
    SharedMemory map = r == rank_ ? std::move(mine) : SharedMemory(kName, other.key, bytes);
    mapped &= static_cast<bool>(map);
    allocation.data.push_back(map.data());
    allocation.maps.push_back(std::move(map));
  }
  if (!all_(mapped)) {
    allocation = {.bytes = allocation.bytes};
    return false;
  }
  touch(allocation);
  all_(true);
  // Enters all pages into this process's table, so that no step does it.
  for (std::byte* const data : allocation.data) madvise(data, bytes, MADV_POPULATE_WRITE);
  for (SharedMemory& map : allocation.maps) map.hide();
  return true;
}

void Window::touch(const Allocation& allocation) const {
  const auto bytes = static_cast<int64_t>(round_up(allocation.bytes, kPage));
  for (int64_t block = 0; block * rule_.bytes < bytes; ++block) {
    if (rule_.lane_of(block) != rank_) continue;
    const int64_t begin = block * rule_.bytes, end = std::min(bytes, begin + rule_.bytes);
    for (std::byte* const data : allocation.data)
      for (int64_t at = begin; at < end; at += kPage) static_cast<volatile std::byte*>(data)[at] = std::byte{0};
  }
}

int64_t Window::place_of(const void* data, size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  const std::less_equal<> not_after;
  const std::lock_guard lock(mutex_);
  for (int index = 0; index < kAllocations; ++index) {
    const Allocation& allocation = allocations_[index];
    if (allocation.data.empty()) continue;
    const auto* const mine = allocation.data[rank_];
    if (not_after(mine, begin) && not_after(begin + bytes, mine + allocation.bytes))
      return (int64_t{index} << kOffsetBits) + (begin - mine);
  }
  return kOutside;
}

std::byte* Window::at(int64_t place, int rank) const {
  const std::lock_guard lock(mutex_);
  const Allocation& allocation = allocations_[place >> kOffsetBits];
  DDP_EXPECT(!allocation.data.empty());
  return allocation.data[rank] + offset_of(place);
}

std::shared_ptr<std::byte> make_window_head(int ranks) {
  const size_t bytes = round_up(Window::head_bytes(ranks), kPage);
  void* const memory = std::aligned_alloc(kPage, bytes);
  if (!memory) throw std::bad_alloc();
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace ddp
