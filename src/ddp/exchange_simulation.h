// The part of a collective between hosts as events: each message arrives at a time, and what a host sends next follows
// from what it has received.
#pragma once

#include "ddp/cluster.h"

#include <cstdint>
#include <vector>

namespace ddp {

// Ends of the links of all hosts; they stay busy from one collective to the next. In ms.
struct LinkEnds {
  explicit LinkEnds(int64_t hosts) : out_free(hosts), in_free(hosts) {}
  std::vector<double> out_free, in_free;
};

// When each host has the sums, if it joins at begin_ms[host]. A ring of `steps` steps, in pieces or in whole chunks; a
// host joins with its own values, and adds them to what it forwards.
std::vector<double> simulate_ring(const Link& link, const std::vector<double>& begin_ms, int64_t steps, double bytes,
                                  bool in_pieces, LinkEnds& ends);

// A double binary tree in pieces. Tree 0 has the hosts in their order: host h is as deep as its lowest bit is high.
// Tree 1 is its mirror image, or for an odd number of hosts shifted by one, so that hardly a host has children in both.
std::vector<double> simulate_tree(const Link& link, const std::vector<double>& begin_ms, double bytes, LinkEnds& ends);

// Messages of such a collective.
int64_t messages_of_ring(int64_t hosts, int64_t steps, double bytes, bool in_pieces);
int64_t messages_of_tree(int64_t hosts, double bytes);

}  // namespace ddp
