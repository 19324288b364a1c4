#include "train/trainer.h"

#include "train/device_data.h"
#include "train/feed.h"
#include "train/step.h"
#include "train/watchdog.h"
#include "train/work.h"

#include <algorithm>
#include <chrono>

namespace ddp {
namespace {

int64_t largest_shard(const DistributedSampler& sampler) {
  const std::vector<int64_t> sizes = sampler.local_batch_sizes();
  return sizes.empty() ? 1 : sizes.back();
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data,
                  const DistributedSampler& train_sampler, const DistributedSampler& test_sampler, Reporter& reporter) {
  const int64_t steps_per_epoch = train_sampler.steps_per_epoch();
  int64_t total = config.epochs * steps_per_epoch;
  if (config.max_steps > 0) total = std::min(total, config.max_steps);

  TrainReport report;
  const auto settle = [&](const StepResult& result) {
    reporter.step(result);
    report.samples += result.samples;
    ++report.steps;
  };

  DeviceData train_data(replica.device, *data.train, largest_shard(train_sampler), config.device_data_bytes);
  DeviceData test_data(replica.device, *data.test, largest_shard(test_sampler), config.device_data_bytes);
  Evaluator evaluator(replica, test_data, test_sampler);
  Watchdog watchdog({config.step_limit, static_cast<int>(replica.plan.buckets.size()), config.give_up},
                    replica.communicator);
  Step step(replica, &watchdog);
  Feed feed(train_data, train_sampler, 0, total, kTrainingFences);
  Stopwatch epoch_watch;
  for (int64_t k = 0; k < total; ++k) {
    const Stopwatch wait;
    const Shard& shard = feed.next();
    if (const auto result = step.run(shard, config.lr, 1e3 * wait.seconds())) settle(*result);

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
      watchdog.started("the evaluation");
      report.evaluation = evaluator.run();
      watchdog.ended();
      reporter.evaluation(epoch, *report.evaluation, watch.seconds());
    }
    epoch_watch = {};
  }
  return report;
}

}  // namespace ddp
