#include "train/evaluation.h"

#include "core/error.h"
#include "train/feed.h"
#include "train/work.h"

#include <array>
#include <chrono>
#include <cmath>

namespace ddp {
namespace {

constexpr size_t kStatBytes = 2 * sizeof(float);

}  // namespace

Evaluator::Evaluator(Replica& replica, DeviceData& data, const DistributedSampler& sampler,
                     Recomputation* recomputation)
    : replica_(replica),
      data_(data),
      sampler_(sampler),
      recomputation_(recomputation),
      stats_(replica.device, kStatBytes),
      host_stats_(replica.device.host_memory(), kStatBytes * static_cast<size_t>(sampler.steps_per_epoch())),
      recorder_(replica.device.recorder()) {}

Evaluation Evaluator::run() {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  if (recomputation_) recomputation_->run();
  const std::chrono::duration<double> recomputed = Clock::now() - start;
  const float* const state = recomputation_ ? replica_.evaluation_state() : replica_.state();

  const int64_t steps = sampler_.steps_per_epoch();
  float* const stats = host_stats_.as<float>();
  std::array<double, 3> sums{};  // loss, correct, samples
  Feed feed(data_, sampler_, 0, steps, kEvaluationFences);
  for (int64_t step = 0; step < steps; ++step) {
    const Shard& shard = feed.next();
    stats[2 * step] = stats[2 * step + 1] = 0;
    if (shard.batch.size == 0) continue;
    recorder_->run({.kind = kEvaluationStep, .size = shard.batch.size}, [&] {
      replica_.model.evaluate({.kind = Pass::Kind::evaluate, .samples = shard.samples, .state = state},
                              stats_.as<float>());
    });
    replica_.device.download(stats + 2 * step, stats_.data(), kStatBytes);
    sums[2] += static_cast<double>(shard.batch.size);
  }
  replica_.device.synchronize();
  for (int64_t step = 0; step < steps; ++step) {
    sums[0] += stats[2 * step];
    sums[1] += stats[2 * step + 1];
  }
  replica_.communicator.sum_host(sums);

  const auto samples = std::llround(sums[2]);
  const int64_t expected = sampler_.samples();
  if (samples != expected)
    throw SharedError(Exit::internal, fmt::format("evaluation saw {} samples of {}", samples, expected));
  return {.correct = std::llround(sums[1]),
          .samples = samples,
          .expected_samples = expected,
          .loss = sums[0] / sums[2],
          .statistics_samples = recomputation_ ? recomputation_->samples() : 0,
          .statistics_seconds = recomputation_ ? recomputed.count() : 0};
}

Evaluator::Recomputation::Recomputation(Replica& replica, DeviceData& data, const DistributedSampler& sampler)
    : replica_(replica), data_(data), sampler_(sampler), recorder_(replica.device.recorder()) {}

void Evaluator::Recomputation::run() {
  Replica& r = replica_;
  const auto record = [&](WorkKey key, const std::function<void()>& work) {
    r.communicator.recordable() ? recorder_->run(key, work) : work();
  };
  const int64_t steps = sampler_.steps_per_epoch();
  Feed feed(data_, sampler_, 0, steps, kEvaluationFences);
  for (int64_t step = 0; step < steps; ++step) {
    const Shard& shard = feed.next();
    const bool first = step == 0;
    record({.kind = first ? kFirstRecomputation : kRecomputation, .size = shard.batch.global_size}, [&] {
      r.model.recompute({.kind = Pass::Kind::recompute,
                         .samples = shard.samples,
                         .global_size = shard.batch.global_size,
                         .mode = first ? Gradient::overwrite : Gradient::add,
                         .state = r.state()});
    });
    r.device.poll();
  }
  const int64_t count = state_count(r.norms);
  r.communicator.wait(r.communicator.sum({r.statistics(), count, DType::f32}));
  r.ops.put(r.state(), r.evaluation_state(), count, Gradient::overwrite);  // its means are the centres of the sums
  r.running_stats().update(r.evaluation_state(), r.statistics(), static_cast<float>(sampler_.samples()), true, {});
  r.device.synchronize();
}

}  // namespace ddp
