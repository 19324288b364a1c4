#include "ddp/cluster.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddp {
namespace {

// n ranks of a host, each with its part of the data: n - 1 steps.
double inside_ms(const Cluster& cluster, double bytes) {
  const auto ranks = static_cast<double>(cluster.most_on_a_host());
  return (ranks - 1) * cluster.inside.ms(bytes / ranks);
}

double half_ring_ms(const Cluster& cluster, double bytes) {
  return ring_ms(cluster.network, cluster.hosts(), cluster.hosts() - 1, bytes,
                 cluster.allreduce == Cluster::Allreduce::shm);
}

}  // namespace

int64_t pieces_of(double bytes) { return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(bytes / kPieceBytes))); }

double CollectiveTimes::total() const {
  return pipelined ? std::max(before + after, between) : before + between + after;
}

double ring_ms(const Link& link, int64_t hosts, int64_t steps, double bytes, bool in_pieces) {
  if (hosts == 1) return 0;
  const double chunk = bytes / static_cast<double>(hosts);
  const double piece = in_pieces ? chunk / static_cast<double>(pieces_of(chunk)) : chunk;
  const double interval = std::max(link.ms(piece), chunk * link.ms_per_byte);
  return static_cast<double>(steps - 1) * interval + link.ms(chunk);
}

double tree_ms(const Link& link, int64_t hosts, double bytes) {
  if (hosts == 1) return 0;
  const double half = bytes / 2, piece = half / static_cast<double>(pieces_of(half));
  const auto depth = static_cast<double>(std::bit_width(static_cast<uint64_t>(hosts - 1)));
  const double volume = bytes * std::min(2.5, static_cast<double>(hosts) / 2);
  return 2 * depth * link.latency_ms + (3 * (depth - 1) * piece + volume) * link.ms_per_byte;
}

CollectiveTimes all_reduce_times(const Cluster& cluster, double bytes) {
  const bool in_pieces = cluster.allreduce == Cluster::Allreduce::shm;
  const double inside = inside_ms(cluster, bytes);
  const double ring = ring_ms(cluster.network, cluster.hosts(), 2 * (cluster.hosts() - 1), bytes, in_pieces);
  const double tree = tree_ms(cluster.network, cluster.hosts(), bytes);
  const bool is_tree = !in_pieces && tree < ring;
  return {.before = inside,
          .between = is_tree ? tree : ring,
          .after = inside,
          .tree = is_tree,
          .pipelined = in_pieces && cluster.hosts() > 1};
}

CollectiveTimes reduce_scatter_times(const Cluster& cluster, double bytes) {
  return {.before = inside_ms(cluster, bytes), .between = half_ring_ms(cluster, bytes)};
}

CollectiveTimes gather_times(const Cluster& cluster, double bytes) {
  return {.between = half_ring_ms(cluster, bytes), .after = inside_ms(cluster, bytes)};
}

}  // namespace ddp
