#include "app/run/profile_of_run.h"

#include "core/stopwatch.h"
#include "train/observers/compute_times.h"
#include "train/observers/measure_costs.h"
#include "train/observers/rank_memory.h"

#include <algorithm>
#include <map>
#include <vector>

namespace ddp {
namespace {

// The mean time to read one of a few samples, in ms; without those that cannot be read.
double time_to_read(const Dataset& data) {
  if (data.in_memory()) return 0;
  constexpr int64_t kRead = 16;
  constexpr double kLimitMs = 100;
  std::vector<uint8_t> bytes(static_cast<size_t>(data.sample_bytes()));
  const Stopwatch all;
  double ms = 0;
  int64_t read = 0;
  for (int64_t i = 0; i < kRead && all.milliseconds() < kLimitMs; ++i) {
    const Stopwatch watch;
    try {
      data.read({.index = i * data.size() / kRead}, bytes);
    } catch (const Error&) {
      continue;
    }
    ms += watch.milliseconds();
    ++read;
  }
  return read > 0 ? ms / static_cast<double>(read) : 0;
}

double largest_of_ranks(const Job& job, double value) {
  std::vector<double> values(static_cast<size_t>(job.session.size()));
  values[static_cast<size_t>(job.session.rank())] = value;
  job.world->all_reduce_host(values);
  return std::ranges::max(values);
}

int64_t bytes_of(GradDType type) { return type == GradDType::fp32 ? 4 : type == GradDType::bf16 ? 2 : 1; }

int64_t most_on_a_host(std::span<const std::string> hosts, std::map<std::string, int64_t>& ranks) {
  int64_t most = 0;
  for (const std::string& host : hosts) most = std::max(most, ++ranks[host]);
  return most;
}

}  // namespace

std::optional<RunProfile> profile_of_run(const Job& job, const PlannedRun& run, const TrainReport& report,
                                         std::span<const std::string> hosts) {
  job.phases.enter(Phase::measuring, report.state.step);
  const auto spread = spread_over_ranks(report.compute_ms, *job.world);
  if (!spread) return std::nullopt;
  constexpr int kPasses = 1;  // after the training
  DistributedSampler sampler = job.samplers.train;
  const bool moved = sampler.weights() != report.rank_weights;
  sampler.set_weights(report.rank_weights);
  if (report.stopped && (!run.costs || moved)) return std::nullopt;
  const StepCosts costs =
      run.costs && !moved ? *run.costs : measure_costs(*run.replica, *job.data.data.train, sampler, kPasses);
  const double shard = largest_of_ranks(job, static_cast<double>(sampler.shard(0).size()));
  const double data_ms = largest_of_ranks(job, report.data_ms);
  if (job.session.rank() != 0 || costs.compute_ms <= 0) return std::nullopt;

  const Replica& replica = *run.replica;
  std::map<std::string, int64_t> ranks_of_hosts;
  const int64_t most = most_on_a_host(hosts, ranks_of_hosts);
  return RunProfile{
      .network = job.options.network.source.name,
      .device = replica.device.name(),
      .precision = run.backend.arithmetic.empty() ? "fp32" : run.backend.arithmetic,
      .on_gpu = !replica.device.is_host(),
      .ranks = job.session.size(),
      .hosts = static_cast<int64_t>(ranks_of_hosts.size()),
      .ranks_per_host = most,
      .batch = sampler.global_batch_size(0),
      .shard = static_cast<int64_t>(shard),
      .micro_batches = sampler.micro_batches(),
      .zero = job.options.replica.zero,
      .computes_with_collectives = job.session.size() > 1 && (replica.reducer.sharded() || replica.sync_bn),
      .parameters = replica.plan.parameter_counts,
      .trailer = replica.plan.trailer(),
      .gradient_bytes = bytes_of(job.options.replica.grad_dtype),
      .costs = costs,
      .compute_ms = spread->median_ms,
      .spread = spread->spread,
      .data_ms = data_ms,
      .read_ms = time_to_read(*job.data.data.train),
      .workers = std::max(1, job.data.workers),
      .memory = memory_of(replica, {run.validation_model.get(), run.average_model.get()}),
      .noise_scale = report.speed ? report.speed->noise_scale : std::nullopt};
}

}  // namespace ddp
