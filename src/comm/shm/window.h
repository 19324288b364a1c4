// Memory in which the ranks of one host work on each other's data in place. Every rank of a window allocates in the
// same order, and maps what the others allocate. A place is the same position in the memory of every rank.
//
// Beside this memory, a window has a head, made before it: for each rank and each collective under way a slot, with the
// stage that the rank has reached, and staging memory for spans that lie outside of the window.
#pragma once

#include "comm/collective.h"
#include "comm/shared_memory.h"
#include "comm/shm/pieces.h"
#include "device/host_memory.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace ddp {

// A collective as a rank has posted it; for the comparison with those of other ranks.
struct Post {
  int64_t count = 0, place = 0;
  Collective::Kind kind = Collective::Kind::all_reduce;
  DType dtype = DType::f32;
  bool in_int8 = false;
  friend bool operator==(const Post&, const Post&) = default;
};

class Window final : public Memory {
 public:
  static constexpr int kSlots = 2;                    // collectives under way
  static constexpr size_t kStagingBytes = 256 << 10;  // of one of the two halves of a slot
  static constexpr int64_t kOutside = -1;             // the place of memory that is not of this source

  // One cache line. `stage` only grows; its owner stores it after the data and the post that it announces.
  struct alignas(64) Slot {
    std::atomic<uint64_t> stage;
    std::array<Post, 2> posts;  // of even and odd rounds
  };

  // Whether all ranks of the communicator, on all hosts, pass true. Collective.
  using Agree = std::function<bool(bool mine)>;

  static size_t head_bytes(int ranks);  // a head for one rank has no staging memory
  // `head`: zeroed memory of head_bytes(ranks) that all ranks of the window map. The first rank of each block of an
  // allocation is block mod `lanes` (comm/shm/pieces.h).
  Window(std::shared_ptr<std::byte> head, int rank, int ranks, const BlockRule& rule, Agree agree);
  // The window of one rank, which shares nothing. It only knows places.
  explicit Window(const BlockRule& rule);

  int rank() const { return rank_; }
  int size() const { return ranks_; }
  Slot& slot(int rank, int number) const;
  std::byte* staging(int rank, int number, int half) const;

  // Collective. The rank whose lane a block is in touches its pages first, in the memory of every rank, because it
  // sums them. Sizes may differ by rank; collectives use the part that all ranks have. If a rank cannot share its
  // memory, no rank shares this allocation, and refused() is true from then on.
  void* allocate(size_t bytes) override;
  void deallocate(void* memory) noexcept override;

  bool refused() const { return refused_; }

  // The place of this rank's bytes from `data` on; kOutside if they do not lie in one allocation.
  int64_t place_of(const void* data, size_t bytes) const;
  bool is_shared(int64_t place) const;
  std::byte* at(int64_t place, int rank) const;  // of a shared place
  // The bytes before a place in its allocation; 0 outside.
  static int64_t offset_of(int64_t place) { return place == kOutside ? 0 : place & ((int64_t{1} << kOffsetBits) - 1); }

 private:
  static constexpr int kOffsetBits = 48, kAllocations = 32;
  struct SharedKey {  // in the head: how to map what a rank allocates now
    SharedMemory::Key key;
    size_t bytes;
    std::byte* address;  // for ranks that are threads of one process
  };
  struct Allocation {
    void* mine = nullptr;  // null: free
    size_t bytes = 0;
    std::vector<std::byte*> data = {};  // by rank; empty: not shared
    std::vector<SharedMemory> maps = {};
  };
  SharedKey& shared_key(int rank) const;
  bool share(Allocation& allocation) const;
  void touch(const Allocation& allocation, size_t bytes) const;

  const std::shared_ptr<std::byte> head_;
  const int rank_, ranks_;
  const BlockRule rule_;
  const Agree agree_;  // null: one rank on every host, so nothing is shared
  bool refused_ = false;
  HostMemory own_;
  mutable std::mutex mutex_;  // for writes to the table, and for reads of the thread that advances collectives
  std::array<Allocation, kAllocations> allocations_;
};

// A head for ranks that are threads of one process.
std::shared_ptr<std::byte> make_window_head(int ranks);

}  // namespace ddp
