#include "ddp/scaling.h"

#include "core/error.h"
#include "ddp/fastest_buckets.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// The inverse of a ring's all-reduce over `ends` hosts or ranks: 2 (n - 1) messages of an n-th of the bytes each.
Link link_of(const RunProfile& profile, int64_t ends) {
  const LinkCost& cost = profile.costs.link;
  const double messages = 2 * static_cast<double>(ends - 1);
  const double bytes_of_mib = static_cast<double>(1 << 20) / 4 * static_cast<double>(profile.gradient_bytes);
  return {.latency_ms = cost.latency_ms / messages,
          .ms_per_byte = cost.ms_per_mib / bytes_of_mib * static_cast<double>(ends) / messages};
}

std::vector<int64_t> padded_counts(const RunProfile& profile, int64_t ranks) {
  std::vector<int64_t> counts = profile.parameters;
  const int64_t multiple = profile.zero ? partition_alignment(static_cast<int>(ranks)) : 1;
  for (int64_t& count : counts) count = (count + multiple - 1) / multiple * multiple;
  return counts;
}

CollectiveTimes times_of(const RunProfile& profile, const Cluster& cluster, double bytes) {
  return profile.zero ? reduce_scatter_times(cluster, bytes) : all_reduce_times(cluster, bytes);
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
  if (profile.zero) costs.bucket_ms += gather_times(cluster, 0).total();
  return costs;
}

BucketPlan buckets_on(const RunProfile& profile, const Cluster& cluster, const Workload& workload, double pass_ms) {
  constexpr size_t kMostPlanned = 1000;  // the time of fastest_buckets() grows with their square
  const int ranks = static_cast<int>(cluster.ranks);
  const std::vector<int64_t> counts = padded_counts(profile, ranks);
  BucketPlan plan = plan_buckets(counts, ranks, profile.trailer, workload.caps.value_or(BucketCaps()));
  if (workload.caps || ranks == 1 || counts.size() > kMostPlanned) return plan;
  const StepCosts costs = costs_on(profile, cluster, pass_ms, plan.total);
  return plan_buckets_at(counts, ranks, profile.trailer, fastest_buckets(plan, costs, !profile.zero));
}

}  // namespace

std::optional<Link> measured_network(const RunProfile& profile) {
  if (profile.hosts == 1) return std::nullopt;
  return link_of(profile, profile.hosts);
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
  for (const Bucket& bucket : buckets.buckets) {
    const bool with_trailer = &bucket == &buckets.buckets.back() && !profile.zero;
    const double ready =
        with_trailer ? 1 : profile.costs.ready_ms[static_cast<size_t>(bucket.end) - 1] / profile.costs.compute_ms;
    const double bytes = static_cast<double>(bucket.count * profile.gradient_bytes) +
                         (with_trailer ? 4.0 * static_cast<double>(profile.trailer) : 0);
    plan.buckets.push_back({.ready_ms = plan.passes_ms - pass + pass * ready,
                            .bytes = bytes,
                            .times = times_of(profile, cluster, bytes),
                            .ring_steps = (profile.zero ? 1 : 2) * (cluster.hosts() - 1)});
    if (profile.zero) plan.gather_ms += gather_times(cluster, 4.0 * static_cast<double>(bucket.count)).total();
  }
  if (profile.zero) {
    const double bytes = 4.0 * static_cast<double>(profile.trailer);
    plan.buckets.push_back({.ready_ms = plan.passes_ms,
                            .bytes = bytes,
                            .times = all_reduce_times(cluster, bytes),
                            .ring_steps = 2 * (cluster.hosts() - 1)});
  }

  const double host_rate = workload.host_samples_per_second / static_cast<double>(cluster.most_on_a_host());
  plan.read_ms = samples * profile.read_ms / static_cast<double>(profile.workers);
  if (host_rate > 0) plan.read_ms = std::max(plan.read_ms, 1000 * samples / host_rate);
  plan.data_ms = profile.data_ms * per_sample;
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
  s.data_ms = std::max(plan.data_ms, plan.read_ms - busy);
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
