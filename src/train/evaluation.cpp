#include "train/evaluation.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "train/fences.h"
#include "train/prefetcher.h"

#include <array>
#include <cmath>

namespace ddp {
namespace {

constexpr size_t kStatBytes = 2 * sizeof(float);

}  // namespace

Evaluator::Evaluator(Replica& replica, DeviceDataset& data, const DistributedSampler& sampler, PreciseBn* precise_bn)
    : replica_(replica),
      data_(data),
      sampler_(sampler),
      precise_bn_(precise_bn),
      stats_(replica.device, kStatBytes),
      host_stats_(replica.device.host_memory(), kStatBytes * static_cast<size_t>(sampler.steps_per_epoch())),
      graphs_(replica.device.graph_cache()) {}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& go_on) {
  const Stopwatch watch;
  if (precise_bn_ && !precise_bn_->run(go_on)) return std::nullopt;
  const double recomputed = watch.seconds();
  const float* const running_stats = precise_bn_ ? replica_.eval_stats() : replica_.running_stats();

  const int64_t steps = sampler_.steps_per_epoch();
  float* const stats = host_stats_.as<float>();
  std::array<double, 3> sums{};  // loss, correct, samples
  Prefetcher prefetcher(data_, sampler_, 0, steps, kEvaluationFences);
  for (int64_t step = 0; step < steps; ++step) {
    if (!go_on()) return std::nullopt;
    const DeviceBatch& batch = prefetcher.next();
    stats[2 * step] = stats[2 * step + 1] = 0;
    if (batch.size == 0) continue;
    const auto work = [&] { replica_.model.evaluate(batch, running_stats, stats_.as<float>()); };
    graphs_->run({.size = batch.size}, std::ref(work));
    replica_.device.download(stats + 2 * step, stats_.data(), kStatBytes);
    sums[2] += static_cast<double>(batch.size);
  }
  replica_.device.synchronize();
  for (int64_t step = 0; step < steps; ++step) {
    sums[0] += stats[2 * step];
    sums[1] += stats[2 * step + 1];
  }
  replica_.communicator.all_reduce_host(sums);

  const auto samples = std::llround(sums[2]);
  const int64_t expected = sampler_.samples();
  if (samples != expected)
    throw CollectiveError(Exit::internal, fmt::format("evaluation saw {} samples of {}", samples, expected));
  return Evaluation{.correct = std::llround(sums[1]),
                    .samples = samples,
                    .expected_samples = expected,
                    .loss = sums[0] / sums[2],
                    .statistics_samples = precise_bn_ ? precise_bn_->samples() : 0,
                    .statistics_seconds = precise_bn_ ? recomputed : 0};
}

}  // namespace ddp
