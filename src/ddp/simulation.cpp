#include "ddp/simulation.h"

#include "core/philox.h"
#include "ddp/exchange_simulation.h"

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kMostMessages = 10'000'000, kMessagesOfARun = 4'000'000, kMostRankSteps = 20'000;

class ClusterSimulation {
 public:
  ClusterSimulation(const StepPlan& plan, const Cluster& cluster, std::span<const Quantile> spread, double data_ms)
      : plan_(plan),
        cluster_(cluster),
        spread_(spread),
        data_ms_(data_ms),
        clocks_(static_cast<size_t>(cluster.ranks)),
        factors_(clocks_.size()),
        ends_(cluster.hosts()) {}

  // From the sums of the last step to those of this one: a rank draws one factor for the update in between and the
  // pass.
  void step(int64_t number, uint64_t seed) {
    for (size_t rank = 0; rank < factors_.size(); ++rank) {
      const Bits128 bits = philox4x32({{static_cast<uint32_t>(rank), static_cast<uint32_t>(number), 0, 0}}, seed);
      factors_[rank] = value_at(spread_, (bits.word[0] + 0.5) * 0x1p-32);
    }
    for (size_t rank = 0; rank < clocks_.size(); ++rank) clocks_[rank] += plan_.update_ms * factors_[rank] + data_ms_;
    std::vector<double> done(static_cast<size_t>(cluster_.hosts()));
    for (const StepPlan::Bucket& bucket : plan_.buckets) done = sum(bucket, done);
    for (size_t rank = 0; rank < clocks_.size(); ++rank) {
      const double computed = clocks_[rank] + plan_.passes_ms * factors_[rank];
      clocks_[rank] = std::max(computed, done[host_of(rank)]) + plan_.gather_ms;
    }
  }

  double now() const { return *std::ranges::max_element(clocks_); }

 private:
  size_t host_of(size_t rank) const { return rank / static_cast<size_t>(cluster_.ranks_per_host); }

  // When each host has the sums of this bucket. `done`: of the one before.
  std::vector<double> sum(const StepPlan::Bucket& bucket, std::vector<double> begin) {
    for (size_t rank = 0; rank < clocks_.size(); ++rank) {
      double& host = begin[host_of(rank)];
      host = std::max(host, clocks_[rank] + bucket.ready_ms * factors_[rank]);
    }
    const CollectiveTimes& times = bucket.times;
    std::vector<double> joins = begin;
    if (!times.pipelined)
      for (double& ms : joins) ms += times.before;
    std::vector<double> done = cluster_.hosts() == 1 ? joins : exchange(bucket, joins);
    for (size_t host = 0; host < done.size(); ++host)
      done[host] =
          times.pipelined ? std::max(done[host], begin[host] + times.before + times.after) : done[host] + times.after;
    return done;
  }

  std::vector<double> exchange(const StepPlan::Bucket& bucket, const std::vector<double>& joins) {
    if (bucket.times.tree) return simulate_tree(cluster_.network, joins, bucket.bytes, ends_);
    return simulate_ring(cluster_.network, joins, bucket.ring_steps, bucket.bytes,
                         cluster_.allreduce == Cluster::Allreduce::shm, ends_);
  }

  const StepPlan& plan_;
  const Cluster cluster_;
  const std::span<const Quantile> spread_;
  const double data_ms_;
  std::vector<double> clocks_, factors_;  // by rank
  LinkEnds ends_;
};

}  // namespace

int64_t messages_of_step(const StepPlan& plan, const Cluster& cluster) {
  int64_t messages = 0;
  for (const StepPlan::Bucket& bucket : plan.buckets)
    messages += bucket.times.tree ? messages_of_tree(cluster.hosts(), bucket.bytes)
                                  : messages_of_ring(cluster.hosts(), bucket.ring_steps, bucket.bytes,
                                                     cluster.allreduce == Cluster::Allreduce::shm);
  return messages;
}

double simulate_steps(const StepPlan& plan, const Cluster& cluster, std::span<const Quantile> spread, double data_ms,
                      int64_t steps, uint64_t seed) {
  ClusterSimulation simulation(plan, cluster, spread, data_ms);
  for (int64_t step = 0; step < steps; ++step) simulation.step(step, seed);
  return simulation.now() / static_cast<double>(steps);
}

std::optional<double> simulate_scaling(const RunProfile& profile, const Cluster& cluster, const Workload& workload,
                                       double data_ms) {
  const StepPlan plan = plan_step(profile, cluster, workload);
  const int64_t messages = messages_of_step(plan, cluster);
  if (messages > kMostMessages) return std::nullopt;
  const int64_t steps = std::clamp(kMessagesOfARun / std::max<int64_t>(1, messages), int64_t{1},
                                   std::max(int64_t{20}, kMostRankSteps / cluster.ranks));
  return simulate_steps(plan, cluster, profile.spread, data_ms, steps);
}

}  // namespace ddp
