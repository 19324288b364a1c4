#include "train/observers/plan_report.h"

#include "ddp/fastest_buckets.h"
#include "train/observers/blank_batch.h"
#include "train/observers/measure_costs.h"
#include "train/observers/rank_memory.h"
#include "train/observers/speed_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr int kRuns = 5;

double kib(int64_t floats) { return static_cast<double>(floats) * 4 / 1024; }
double mib(int64_t bytes) { return static_cast<double>(bytes) / 1024 / 1024; }

// The prediction for these buckets and for those of constant sizes.
std::string describe_exposed(const Replica& replica, const StepCosts& costs) {
  const BucketPlan& plan = replica.plan;
  const bool rides = replica.reducer.trailer_in_last_bucket();
  const BucketCaps caps;
  const BucketPlan constant = plan_buckets(plan.parameter_counts, replica.communicator.size(), plan.trailer(), caps);
  const auto& [latency_ms, ms_per_mib] = costs.link;
  return fmt::format(
      "link: latency {:.3f} ms, {:.3f} ms a MiB ({})\n"
      "predicted exposed communication: {:.2f} ms with these buckets, {:.2f} ms with {} by a cap of {:g} MiB\n",
      latency_ms, ms_per_mib, ms_per_mib > 0 ? fmt::format("{:.1f} MiB/s", 1e3 / ms_per_mib) : "too fast to measure",
      exposed_ms(plan, costs, rides), exposed_ms(constant, costs, rides), constant.buckets.size(), caps.cap_mb);
}

}  // namespace

std::string plan_report(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                        std::initializer_list<const Model*> evaluation_models, std::optional<StepCosts> costs) {
  const BlankBatch blank(replica, data, sampler);
  const double compute =
      sampler.micro_batches() * median_ms(replica, kRuns, [&] { replica.model.forward_backward(blank.batch); });
  const int64_t trained = total_count(trained_of(replica.parameters)),
                frozen = total_count(replica.parameters) - trained;
  std::string text =
      fmt::format("{}{} parameters in {} buckets, launched in this order{}:\n", trained, frozen > 0 ? " trained" : "",
                  replica.plan.buckets.size(), frozen > 0 ? fmt::format("; {} more are frozen", frozen) : "");
  const Reducer& reducer = replica.reducer;
  const bool communicates = replica.communicator.size() > 1;
  if (communicates && !costs) costs = measure_costs(replica, data, sampler);
  if (!communicates) costs.reset();
  std::vector<std::string> runs(reducer.collectives());  // when each collective runs; empty: with one rank
  if (costs)
    std::ranges::transform(predict_collectives(replica.plan, *costs, reducer.trailer_in_last_bucket()), runs.begin(),
                           [](const CollectiveTime& time) {
                             return fmt::format(", runs from {:.2f} to {:.2f} ms", time.begin, time.end);
                           });
  const int buckets = static_cast<int>(replica.plan.buckets.size());
  const std::string kind =
      fmt::format("{}{}", reducer.sharded() ? "reduce-scatter" : "allreduce", replica.gradient_type());
  double communication = 0, last = 0;
  for (int c = 0; c < reducer.collectives(); ++c) {
    last = median_ms(replica, kRuns, [&] { replica.reducer.run_alone(c); });
    communication += last;
    if (c == buckets) {
      text +=
          fmt::format("  trailer:  {:10.1f} KiB, allreduce {:7.3f} ms{}\n", kib(replica.plan.trailer()), last, runs[c]);
      continue;
    }
    const Bucket& bucket = replica.plan.buckets[c];
    text += fmt::format("  bucket {}: {:10.1f} KiB, {} {:7.3f} ms{}:", c, kib(bucket.count), kind, last, runs[c]);
    for (ParameterId id = bucket.first; id < bucket.end; ++id) text += " " + replica.parameters[id].name;
    text += c + 1 == buckets && reducer.trailer_in_last_bucket() ? " + trailer\n" : "\n";
  }
  if (replica.optimizer.collectives() > 0) {
    const double gather = median_ms(replica, kRuns, [&] { replica.optimizer.gather_alone(); });
    text += fmt::format("  weights gathered in {:.3f} ms\n", gather);
    communication += gather;
    last += gather;
  }
  if (costs) text += describe_exposed(replica, *costs);
  const RankMemory memory = memory_of(replica, evaluation_models);
  text += fmt::format(
      "memory of a rank: weights {:.1f} KiB, gradients {:.1f} KiB, optimizer {:.1f} KiB, activations {:.1f} KiB\n"
      "bytes of activations that a pass moves: {:.1f} MiB of a rank, {:.1f} in whole batches\n"
      "predicted step: compute {:.2f} ms, communication {:.2f} ms, of which {:.2f} ms (after the last gradient) "
      "cannot be hidden: {:.2f} to {:.2f} ms\n"
      "predicted epoch: {:.1f} to {:.1f} s ({} steps)\n",
      memory.weights / 1024, memory.gradients / 1024, memory.optimizer / 1024, memory.activations / 1024,
      mib(replica.model.traffic()), mib(replica.model.whole_traffic()), compute, communication, last, compute + last,
      compute + communication, 1e-3 * static_cast<double>(sampler.steps_per_epoch()) * (compute + last),
      1e-3 * static_cast<double>(sampler.steps_per_epoch()) * (compute + communication), sampler.steps_per_epoch());
  return text;
}

}  // namespace ddp
