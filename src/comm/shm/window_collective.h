// A collective in the window of a host, as a state machine that never blocks. It is all-reduce, reduce_scatter or
// all_gather.
//
// Every rank of a host posts the collective: from then on the others may read and write its span. When all have posted,
// each rank sums the pieces of its lane over the spans of all ranks of its host, in the order of the ranks. If there
// are other hosts, it exchanges the sums with the ranks of its lane there. It writes the results into the spans of the
// other ranks of its host. It does so piece by piece: it sends and writes a piece before it has summed all others. When
// all ranks have written all pieces, the collective is complete. An all_gather copies where an all-reduce sums; a
// reduce_scatter writes only to the rank whose part it is.
//
// The sum is computed once and copied, so all ranks have equal bits. The place of a byte fixes the order of the terms
// of an all-reduce (comm/shm/pieces.h): the sizes of the buckets change no bits. On three and more hosts, the order of
// a reduce_scatter also depends on whose part the byte is in.
//
// Two other routes serve other spans. A span that is not shared passes through staging memory in the window, in rounds.
// A small all-reduce passes through it whole: on one host, each rank then computes the whole sum, so that one round of
// posts is enough; on several hosts, the first rank of each host sums, and the links gather.
#pragma once

#include "comm/shm/host_link.h"
#include "comm/shm/window.h"

#include <memory>
#include <vector>

namespace ddp {

struct WindowConfig {
  HostLayout layout;
  BlockRule rule;
  int64_t small_bytes = 0;  // an all-reduce of at most this size is small; at most Window::kStagingBytes
  int rank = 0;             // in the communicator
};

class WindowCollective final : private HostPieces {
 public:
  // `slot`: below Window::kSlots; one object on each rank. `link`: null on one host, or for a rank without a lane.
  WindowCollective(const WindowConfig& config, std::shared_ptr<Window> window, int slot,
                   std::unique_ptr<HostLink> link);

  // Posts the collective. Ranks that have posted different collectives get Error(Exit::internal) in advance().
  void start(const Collective& collective);
  bool advance();         // true when done
  int64_t moves() const;  // grows while the collective moves
  void abandon();         // leaves outstanding messages their memory

 private:
  enum class Phase : uint8_t { posted, exchange, complete };
  enum class Route : uint8_t { direct, staged, small };

  void begin_round();
  void publish();
  bool all_have_reached();
  void compare_posts() const;
  bool sum_or_start_link();  // false if the collective is complete on this rank
  void sum_pieces();
  void collect(const Piece& piece) override;
  void spread(const Piece& piece) override;
  bool end_round();
  bool sums_on_leader() const { return route_ == Route::small && config_.layout.hosts > 1; }
  bool is_leader() const { return window_->rank() == 0; }
  std::byte* span() const { return static_cast<std::byte*>(collective_.span.data); }
  int64_t elements(int64_t bytes) const { return bytes / static_cast<int64_t>(size_of(collective_.span.dtype)); }
  std::vector<std::byte*>& at(int64_t begin);  // the round's bytes from `begin` on, on every rank of this host

  const WindowConfig config_;
  const std::shared_ptr<Window> window_;
  const int slot_;
  const std::unique_ptr<HostLink> link_;

  Collective collective_;
  Route route_ = Route::direct;
  Phase phase_ = Phase::posted;
  int64_t place_ = Window::kOutside;
  int64_t bytes_ = 0;                    // of the span
  int64_t begin_ = 0, round_bytes_ = 0;  // the bytes of this round
  Pieces pieces_;                        // of this rank's lane, in this round
  uint64_t rounds_ = 0, stage_ = 0;
  int reached_ = 0;                // the ranks of this host before this one have reached stage_
  std::vector<std::byte*> bases_;  // of the round's bytes, by rank of this host
  std::vector<std::byte*> pointers_;
  int64_t moves_ = 0;
};

}  // namespace ddp
