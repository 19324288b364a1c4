// How the ranks share out the bytes of a collective.
//
// Hosts are numbered from 0, and so are the ranks of a host. A lane is one rank of each host: the ranks l of all hosts
// are lane l. There are as many lanes as the host with the fewest ranks has ranks. Every byte of a collective belongs
// to one lane, whose ranks sum it on their hosts and exchange it between the hosts. In its lane it belongs to the chunk
// of one host, as in a ring (comm/mpi/ring.h).
//
// For an all-reduce, both follow from the place of the byte in the memory of the window alone: lane = block mod lanes,
// chunk = (block / lanes) mod hosts, where a block has a fixed size. So the order in which a gradient's terms are added
// does not depend on the bucket that it travels in. For reduce_scatter and all_gather, chunk and lane are those of the
// rank whose part it is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ddp {

// Which hosts and lanes the ranks of a communicator are on. A pure function of each rank's host.
struct HostLayout {
  HostLayout() = default;
  // hosts_of_ranks: for each rank a number that is equal on all ranks of its host, and different on other hosts.
  explicit HostLayout(const std::vector<int>& hosts_of_ranks);

  std::vector<int> host, local;  // of each rank: its host, numbered by its lowest rank, and its number there
  int hosts = 0, lanes = 0;
  int ranks_on(int number) const { return static_cast<int>(std::ranges::count(host, number)); }
};

struct BlockRule {
  int64_t bytes = 0;  // of a block
  int lanes = 1, hosts = 1;
  int lane_of(int64_t block) const { return static_cast<int>(block % lanes); }
  int chunk_of(int64_t block) const { return static_cast<int>(block / lanes % hosts); }
};

struct Piece {
  int64_t begin = 0, bytes = 0;  // of the collective's span
  int owner = 0;                 // for parts: the local number of the rank whose part it is
};

// The pieces of one lane, in order, by chunk.
class Pieces {
 public:
  // `offset`: where the span begins in the memory of the window.
  void cut_blocks(const BlockRule& rule, int lane, int64_t offset, int64_t bytes);
  // The bytes [begin, begin + bytes) of a span of equal parts; pieces count from `begin`. No piece exceeds rule.bytes.
  void cut_parts(const BlockRule& rule, const HostLayout& layout, int lane, int64_t part_bytes, int64_t begin,
                 int64_t bytes);

  const std::vector<Piece>& chunk(int host) const { return chunks_[host]; }
  int hosts() const { return static_cast<int>(chunks_.size()); }
  int64_t longest() const;  // pieces of the chunk with the most
  int64_t largest() const;  // bytes of the largest piece

 private:
  void begin(int hosts);

  std::vector<std::vector<Piece>> chunks_;  // keep their memory from collective to collective
};

}  // namespace ddp
