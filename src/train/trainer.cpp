#include "train/trainer.h"

#include "train/device_data.h"
#include "train/feed.h"
#include "train/recomputation.h"
#include "train/watchdog.h"
#include "train/work.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace ddp {
namespace {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::vector<int64_t> Samplers::batch_sizes() const {
  std::set<int64_t> sizes;
  for (const auto* sampler : {&train, &test, statistics ? &*statistics : nullptr})
    if (sampler)
      for (const int64_t size : sampler->local_batch_sizes()) sizes.insert(size);
  if (sizes.empty()) sizes.insert(1);  // a rank without samples still has a model
  return {sizes.begin(), sizes.end()};
}

TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                  Reporter& reporter) {
  const int64_t steps_per_epoch = samplers.train.steps_per_epoch();
  int64_t total = config.epochs * steps_per_epoch;
  if (config.max_steps > 0) total = std::min(total, config.max_steps);

  TrainReport report;
  const auto settle = [&](const StepResult& result) {
    reporter.step(result);
    report.samples += result.samples;
    ++report.steps;
    if (!result.skipped.empty()) ++report.skipped;
  };

  const size_t limit = config.device_data_bytes;
  DeviceData train_data(replica.device, *data.train, samplers.train.largest_shard(), limit);
  DeviceData test_data(replica.device, *data.test, samplers.test.largest_shard(), limit);
  std::optional<StatisticsRecomputation> recomputation;
  if (samplers.statistics) recomputation.emplace(replica, *data.train, *samplers.statistics, limit);
  Evaluator evaluator(replica, test_data, samplers.test, recomputation ? &*recomputation : nullptr);
  const int buckets = static_cast<int>(replica.plan.buckets.size());
  const int others = replica.reducer.collectives() - buckets + replica.update.collectives();
  Watchdog watchdog({config.step_limit, buckets, others, config.give_up}, replica.communicator,
                    replica.norm_communicator());
  Step step(replica, config.step, &watchdog);
  Feed feed(train_data, samplers.train, 0, total, kTrainingFences);
  const Step::NextShard next_shard = [&]() -> const Shard& { return feed.next(); };
  Stopwatch epoch_watch;
  for (int64_t k = 0; k < total; ++k) {
    const int64_t seen =
        k / steps_per_epoch * samplers.train.samples() + k % steps_per_epoch * samplers.train.global_batch_size(0);
    const double rate = rate_at(config.schedule, seen, samplers.train.samples());
    if (const auto result = step.run(next_shard, rate)) settle(*result);

    const bool run_ends = k + 1 == total;
    if (!run_ends && (k + 1) % steps_per_epoch != 0) continue;
    for (const StepResult& result : step.drain()) settle(result);
    report.train_seconds += epoch_watch.seconds();

    watchdog.started("the comparison of replicas");
    replica.check_replicas();
    watchdog.ended();
    const int64_t epoch = k / steps_per_epoch + 1;
    if (config.eval_every > 0 && (epoch % config.eval_every == 0 || run_ends)) {
      const Stopwatch watch;
      report.evaluation = evaluator.run([&] { watchdog.started("a batch of the evaluation"); });
      watchdog.ended();
      reporter.evaluation(epoch, *report.evaluation, watch.seconds());
    }
    epoch_watch = {};
  }
  return report;
}

}  // namespace ddp
