#include "ddp/scaling.h"

#include "core/error.h"
#include "ddp/fastest_buckets.h"
#include "ddp/ticket.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddp {
namespace {

// Of a ring over `ends` hosts or ranks, an n-th of the bytes each: 2 (n - 1) for an all-reduce, and half of them for a
// reduce-scatter, which a run with sharded optimizer state measures.
double messages_of(const RunProfile& profile, int64_t ends) {
  return (profile.zero ? 1 : 2) * static_cast<double>(ends - 1);
}

// Of an element in the collectives that were measured: in int8 they travel between hosts alone.
double measured_bytes(const RunProfile& profile) {
  return profile.gradient_bytes == 1 && profile.hosts == 1 ? 4 : static_cast<double>(profile.gradient_bytes);
}

// The inverse of a ring in whole chunks.
Link link_of(const RunProfile& profile, int64_t ends) {
  const LinkCost& cost = profile.costs.link;
  const double messages = messages_of(profile, ends);
  const double bytes_of_mib = static_cast<double>(1 << 20) / 4 * measured_bytes(profile);
  return {.latency_ms = cost.latency_ms / messages,
          .ms_per_byte = cost.ms_per_mib / bytes_of_mib * static_cast<double>(ends) / messages};
}

// The inverse of ring_ms() in pieces for all gradients: its time is the larger one of two that are linear in
// ms_per_byte.
Link link_in_pieces_of(const RunProfile& profile, int64_t ends) {
  Link link = link_of(profile, ends);
  const int64_t elements = std::accumulate(profile.parameters.begin(), profile.parameters.end(), int64_t{0});
  const double chunk = static_cast<double>(elements * profile.gradient_bytes) / static_cast<double>(ends);
  const double piece = chunk / static_cast<double>(pieces_of(chunk));
  const double messages = messages_of(profile, ends);
  const double bytes_ms = messages * chunk * link.ms_per_byte;
  link.ms_per_byte = std::min(bytes_ms / ((messages - 1) * piece + chunk),
                              (bytes_ms + (messages - 1) * link.latency_ms) / (messages * chunk));
  return link;
}

// The ticket in the trailer has some elements for each rank.
int64_t trailer_on(const RunProfile& profile, int64_t ranks) {
  const auto ticket = [](int64_t world) { return TicketLayout{.world = static_cast<int>(world)}.elements(); };
  return std::max(int64_t{0}, profile.trailer + ticket(ranks) - ticket(profile.ranks));
}

// Else the trailer, which is f32, has its own collective.
bool trailer_in_last_bucket(const RunProfile& profile) { return !profile.zero && profile.gradient_bytes == 4; }

std::vector<int64_t> padded_counts(const RunProfile& profile, int64_t ranks) {
  std::vector<int64_t> counts = profile.parameters;
  const int64_t multiple = profile.zero ? partition_alignment(static_cast<int>(ranks)) : 1;
  for (int64_t& count : counts) count = (count + multiple - 1) / multiple * multiple;
  return counts;
}

// Inside a host, int8 is f32.
CollectiveTimes times_of(const RunProfile& profile, const Cluster& cluster, double bytes) {
  const auto times = profile.zero ? reduce_scatter_times : all_reduce_times;
  CollectiveTimes found = times(cluster, bytes);
  if (profile.gradient_bytes > 1) return found;
  const CollectiveTimes inside = times(cluster, 4 * bytes);
  found.before = inside.before;
  found.after = inside.after;
  return found;
}

// As a run on this cluster would measure them, with collectives on a line from nothing to all gradients.
StepCosts costs_on(const RunProfile& profile, const Cluster& cluster, double pass_ms, int64_t elements) {
  StepCosts costs = profile.costs;
  for (double& ready : costs.ready_ms) ready *= pass_ms / profile.costs.compute_ms;
  costs.compute_ms = std::max(pass_ms, costs.ready_ms.back());
  const auto all = static_cast<double>(elements);
  const double latency = times_of(profile, cluster, 0).total();
  const double whole = times_of(profile, cluster, all * static_cast<double>(profile.gradient_bytes)).total();
  costs.link = {.latency_ms = latency, .ms_per_mib = std::max(0.0, whole - latency) / (4 * all / (1 << 20))};
  if (profile.zero) {
    const double measured_gather = profile.ranks > 1 ? profile.costs.link.latency_ms : 0;
    costs.bucket_ms = std::max(0.0, costs.bucket_ms - measured_gather) + gather_times(cluster, 0).total();
  }
  return costs;
}

BucketPlan buckets_on(const RunProfile& profile, const Cluster& cluster, const Workload& workload, double pass_ms) {
  const int ranks = static_cast<int>(cluster.ranks);
  const std::vector<int64_t> counts = padded_counts(profile, ranks);
  const int64_t trailer = trailer_on(profile, ranks);
  BucketPlan plan = plan_buckets(counts, ranks, trailer, workload.caps.value_or(BucketCaps()));
  if (workload.caps || ranks == 1 || counts.size() > kMostPlannedParameters) return plan;
  const StepCosts costs = costs_on(profile, cluster, pass_ms, plan.total);
  return plan_buckets_at(counts, ranks, trailer, robust_buckets(plan, costs, trailer_in_last_bucket(profile)));
}

}  // namespace

std::optional<Link> measured_network(const RunProfile& profile) {
  if (profile.hosts == 1) return std::nullopt;
  return profile.on_gpu ? link_of(profile, profile.hosts) : link_in_pieces_of(profile, profile.hosts);
}

std::optional<Link> measured_inside(const RunProfile& profile) {
  if (profile.hosts > 1 || profile.ranks == 1) return std::nullopt;
  return link_of(profile, profile.ranks);
}

StepPlan plan_step(const RunProfile& profile, const Cluster& cluster, const Workload& workload) {
  DDP_EXPECT(cluster.ranks >= 1 && cluster.ranks_per_host >= 1);
  const auto micro_batches = static_cast<double>(profile.micro_batches);
  const auto samples = static_cast<double>(workload.largest_shard_on(cluster.ranks));
  const double per_sample = samples / (static_cast<double>(profile.shard) * micro_batches);

  StepPlan plan;
  const double measured_passes = std::min(micro_batches * profile.costs.compute_ms, profile.compute_ms);
  const double pass = measured_passes * per_sample / micro_batches;
  plan.passes_ms = micro_batches * pass;
  plan.update_ms = profile.compute_ms - measured_passes;

  const BucketPlan buckets = buckets_on(profile, cluster, workload, pass);
  const double trailer_bytes = 4.0 * static_cast<double>(buckets.trailer());
  for (const Bucket& bucket : buckets.buckets) {
    const bool with_trailer = &bucket == &buckets.buckets.back() && trailer_in_last_bucket(profile);
    const double ready =
        with_trailer ? 1 : profile.costs.ready_ms[static_cast<size_t>(bucket.end) - 1] / profile.costs.compute_ms;
    const double bytes =
        static_cast<double>(bucket.count * profile.gradient_bytes) + (with_trailer ? trailer_bytes : 0);
    plan.buckets.push_back({.ready_ms = plan.passes_ms - pass + pass * ready,
                            .bytes = bytes,
                            .times = times_of(profile, cluster, bytes),
                            .ring_steps = (profile.zero ? 1 : 2) * (cluster.hosts() - 1)});
    if (profile.zero) plan.gather_ms += gather_times(cluster, 4.0 * static_cast<double>(bucket.count)).total();
  }
  if (!trailer_in_last_bucket(profile))
    plan.buckets.push_back({.ready_ms = plan.passes_ms,
                            .bytes = trailer_bytes,
                            .times = all_reduce_times(cluster, trailer_bytes),
                            .ring_steps = 2 * (cluster.hosts() - 1)});

  const double host_rate = workload.host_samples_per_second / static_cast<double>(cluster.most_on_a_host());
  plan.read_ms = samples * profile.read_ms / static_cast<double>(profile.workers);
  if (host_rate > 0) plan.read_ms = std::max(plan.read_ms, 1000 * samples / host_rate);
  plan.data_ms = profile.data_ms * per_sample;
  if (profile.read_ms > 0)
    plan.hiding_ms =
        profile.compute_ms * expected_maximum(profile.spread, static_cast<double>(profile.ranks)) * per_sample;
  return plan;
}

Scaling scaling_on(const RunProfile& profile, const Cluster& cluster, const Workload& workload) {
  const StepPlan plan = plan_step(profile, cluster, workload);
  const double factor = expected_maximum(profile.spread, static_cast<double>(cluster.ranks));
  Scaling s{.ranks = cluster.ranks, .hosts = cluster.hosts(), .batch = workload.batch_on(cluster.ranks)};
  s.compute_ms = plan.passes_ms + plan.update_ms;
  s.straggler_ms = (factor - 1) * s.compute_ms;
  double done = 0;
  for (const StepPlan::Bucket& bucket : plan.buckets) {
    done = std::max(done, bucket.ready_ms * factor) + bucket.times.total();
    s.communication_ms += bucket.times.total();
    ++(bucket.times.tree ? s.trees : s.rings);
  }
  s.communication_ms += plan.gather_ms;
  s.exposed_ms = std::max(0.0, done - plan.passes_ms * factor) + plan.gather_ms;
  const double busy = s.compute_ms + s.straggler_ms + s.exposed_ms;
  const double hidden = plan.hiding_ms ? std::max(0.0, busy - *plan.hiding_ms) : 0;
  s.data_ms = std::max({plan.data_ms - hidden, plan.read_ms - busy, 0.0});
  s.step_ms = busy + s.data_ms;

  s.memory = profile.memory;
  if (profile.zero) s.memory.optimizer *= static_cast<double>(profile.ranks) / static_cast<double>(cluster.ranks);
  s.memory.activations *= static_cast<double>(workload.largest_shard_on(cluster.ranks)) /
                          static_cast<double>(profile.shard * profile.micro_batches);
  return s;
}

double efficiency(const Scaling& many, const Scaling& one) {
  return many.samples_per_second() /
         (one.samples_per_second() * static_cast<double>(many.ranks) / static_cast<double>(one.ranks));
}

double speed_up(const Scaling& many, const Scaling& one, double noise_scale) {
  const auto ms_to_the_loss = [&](const Scaling& s) {
    return s.step_ms * (1 + noise_scale / static_cast<double>(s.batch));
  };
  return ms_to_the_loss(one) / ms_to_the_loss(many);
}

}  // namespace ddp
