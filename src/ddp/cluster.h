// Hosts and links of a cluster that may not exist, and what a collective takes there. Times in ms.
#pragma once

#include <cstdint>

namespace ddp {

// The last byte of a message arrives latency_ms + bytes * ms_per_byte after its begin. Messages of one sender follow
// one another.
struct Link {
  double latency_ms = 0, ms_per_byte = 0;
  double ms(double bytes) const { return latency_ms + bytes * ms_per_byte; }
};

struct Cluster {
  // How ranks sum. nccl: a reduce-scatter inside each host, then a ring or a double binary tree between the hosts,
  // whichever is faster for the size, then a gather inside each host; one after another. shm: in shared memory on a
  // host, and piece by piece in a ring between hosts at the same time (comm/mpi/ring.h).
  enum class Allreduce : uint8_t { nccl, shm };

  int64_t ranks = 1, ranks_per_host = 1;  // the last host may have fewer
  Link network = {};                      // of a host, in each direction; its ranks share it
  Link inside = {};                       // of a rank, to another one of its host
  Allreduce allreduce = Allreduce::nccl;

  int64_t hosts() const { return (ranks + ranks_per_host - 1) / ranks_per_host; }
  int64_t most_on_a_host() const { return ranks < ranks_per_host ? ranks : ranks_per_host; }
};

// Bytes of a message of a pipelined collective, as comm/mpi sends them.
inline constexpr double kPieceBytes = 60 << 10;

// The number of messages that carry a chunk of a ring, or half of a tree's data.
int64_t pieces_of(double bytes);

// The parts of one collective of `bytes` bytes. A reduce-scatter is the first half of an all-reduce, and a gather the
// second.
struct CollectiveTimes {
  double before = 0, between = 0, after = 0;  // inside each host, between the hosts, inside each host again
  bool tree = false;                          // between the hosts; false: a ring
  bool pipelined = false;                     // the parts inside a host overlap the part between hosts
  double total() const;
};
CollectiveTimes all_reduce_times(const Cluster& cluster, double bytes);
CollectiveTimes reduce_scatter_times(const Cluster& cluster, double bytes);
CollectiveTimes gather_times(const Cluster& cluster, double bytes);

// A ring in which each host sends `steps` chunks. Whole chunks follow one another with the latency of each. In pieces,
// a host sends the first piece of a chunk when it has the first piece of the chunk before: the latency is hidden where
// a chunk takes longer.
double ring_ms(const Link& link, int64_t hosts, int64_t steps, double bytes, bool in_pieces);

// A double binary tree in pieces (Sanders, Speck and Traff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", 2009). The first piece goes up and down, and waits at each host for a second child. Then a
// host's link takes the data 2.5 times, because it serves both trees in the order in which their pieces come; the best
// order would take them twice. Fewer than five hosts send less (exchange_simulation.h).
double tree_ms(const Link& link, int64_t hosts, double bytes);

}  // namespace ddp
