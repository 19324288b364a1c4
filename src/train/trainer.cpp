#include "train/trainer.h"

#include "data/loader.h"
#include "train/step.h"

#include <algorithm>
#include <chrono>

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

  Step step(replica);
  Loader loader(*data.train, train_sampler, 0, total);
  Stopwatch epoch_watch;
  for (int64_t k = 0; k < total; ++k) {
    const Stopwatch wait;
    const Batch& batch = loader.next();
    if (const auto result = step.run(batch, config.lr, 1e3 * wait.seconds())) settle(*result);

    const bool run_ends = k + 1 == total;
    if (!run_ends && (k + 1) % steps_per_epoch != 0) continue;
    for (const StepResult& result : step.drain()) settle(result);
    report.train_seconds += epoch_watch.seconds();

    replica.check_replicas();
    const int64_t epoch = k / steps_per_epoch + 1;
    if (config.eval_every > 0 && (epoch % config.eval_every == 0 || run_ends)) {
      const Stopwatch watch;
      report.evaluation = evaluate(replica, *data.test, test_sampler);
      reporter.evaluation(epoch, *report.evaluation, watch.seconds());
    }
    epoch_watch = {};
  }
  return report;
}

}  // namespace ddp
