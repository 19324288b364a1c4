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

constexpr const char* kWindowName = "ddp_train gradients";
constexpr size_t kPage = 4096;

size_t round_up(size_t bytes, size_t multiple) { return (bytes + multiple - 1) / multiple * multiple; }

}  // namespace

// The head: the slots of every rank, the keys of every rank, then from the next page on the staging memory of every
// rank.
size_t Window::head_bytes(int ranks) {
  const size_t staging = ranks == 1 ? 0 : ranks * kSlots * 2 * kStagingBytes;
  return round_up(ranks * (kSlots * sizeof(Slot) + sizeof(SharedKey)), kPage) + staging;
}

Window::Window(std::shared_ptr<std::byte> head, int rank, int ranks, const BlockRule& rule, Agree agree)
    : head_(std::move(head)), rank_(rank), ranks_(ranks), rule_(rule), agree_(std::move(agree)) {}

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
  Allocation allocation{.bytes = bytes};
  if (agree_ && !(free != allocations_.end() && share(allocation))) refused_ = true;
  if (allocation.data.empty()) {
    allocation.mine = own_.allocate(bytes);
    if (!agree_) allocation.data = {static_cast<std::byte*>(allocation.mine)};
  } else {
    allocation.mine = allocation.data[rank_];
  }
  if (free == allocations_.end()) return allocation.mine;
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

// Shares the memory of every rank of this host; false if a rank of any host cannot do so. Numbers of processes mean the
// same on all ranks of a window, because all have mapped its head by such a number.
bool Window::share(Allocation& allocation) const {
  const size_t bytes = std::max(kPage, round_up(allocation.bytes, kPage));
  SharedMemory mine(kWindowName, bytes);
  shared_key(rank_) = {mine.key(), bytes, mine.data()};
  if (!agree_(static_cast<bool>(mine))) return false;
  Allocation shared{.bytes = allocation.bytes};
  size_t common = bytes;
  bool mapped = true;
  for (int r = 0; r < ranks_; ++r) {
    const SharedKey& other = shared_key(r);
    common = std::min(common, other.bytes);
    if (r != rank_ && other.key.pid == getpid()) {
      shared.data.push_back(other.address);
      continue;
    }
    SharedMemory map = r == rank_ ? std::move(mine) : SharedMemory(kWindowName, other.key, other.bytes);
    mapped &= static_cast<bool>(map);
    shared.data.push_back(map.data());
    shared.maps.push_back(std::move(map));
  }
  if (!agree_(mapped)) return false;
  touch(shared, common);
  agree_(true);
  // Enters all pages into this process's table, so that no step does it.
  for (std::byte* const data : shared.data) madvise(data, common, MADV_POPULATE_WRITE);
  for (SharedMemory& map : shared.maps) map.hide();
  allocation = std::move(shared);
  return true;
}

void Window::touch(const Allocation& allocation, size_t bytes) const {
  const auto all = static_cast<int64_t>(bytes);
  for (int64_t block = 0; block * rule_.bytes < all; ++block) {
    if (rule_.lane_of(block) != rank_) continue;
    const int64_t begin = block * rule_.bytes, end = std::min(all, begin + rule_.bytes);
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
    if (!allocation.mine) continue;
    const auto* const mine = static_cast<const std::byte*>(allocation.mine);
    if (not_after(mine, begin) && not_after(begin + bytes, mine + allocation.bytes))
      return (int64_t{index} << kOffsetBits) + (begin - mine);
  }
  return kOutside;
}

bool Window::is_shared(int64_t place) const {
  const std::lock_guard lock(mutex_);
  return place != kOutside && !allocations_[place >> kOffsetBits].data.empty();
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
