#include "train/evaluation/evaluation.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "train/step/fences.h"
#include "train/step/prefetcher.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddp {
namespace {

constexpr size_t kStatBytes = 2 * sizeof(float);

size_t bytes_of_ranked(int64_t samples) { return sizeof(RankedClass) * static_cast<size_t>(samples); }

// Of a RankedClass for each image.
Buffer ranked_buffer(Memory& memory, const Dataset& data, int64_t images) {
  return data.sequence_length() > 0 ? Buffer() : Buffer(memory, bytes_of_ranked(images));
}

int64_t samples_of_rank(const DistributedSampler& sampler) {
  int64_t samples = 0;
  for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step) samples += sampler.shard(step).size();
  return samples;
}

EvaluatedModel evaluated_of(Replica& replica, Model& model, bool precise_bn) {
  const float* const running_stats = precise_bn ? replica.eval_stats() : replica.running_stats();
  return {model, running_stats, replica.device, replica.communicator};
}

}  // namespace

Evaluator::Evaluator(const EvaluatedModel& evaluated, DeviceDataset& data, const DistributedSampler& sampler,
                     PreciseBn* precise_bn)
    : evaluated_(evaluated),
      data_(data),
      sampler_(sampler),
      precise_bn_(precise_bn),
      stats_(evaluated.device, kStatBytes),
      host_stats_(evaluated.device.host_memory(), kStatBytes * static_cast<size_t>(sampler.steps_per_epoch())),
      ranked_(ranked_buffer(evaluated.device, data.data, sampler.largest_shard())),
      host_ranked_(ranked_buffer(evaluated.device.host_memory(), data.data, samples_of_rank(sampler))),
      graphs_(evaluated.device.graph_cache()) {}

Evaluator::Evaluator(Replica& replica, Model& model, DeviceDataset& data, const DistributedSampler& sampler,
                     PreciseBn* precise_bn)
    : Evaluator(evaluated_of(replica, model, precise_bn != nullptr), data, sampler, precise_bn) {}

Evaluator::Evaluator(Replica& replica, DeviceDataset& data, const DistributedSampler& sampler, PreciseBn* precise_bn)
    : Evaluator(replica, replica.model, data, sampler, precise_bn) {}

Evaluator::Evaluator(const EvaluatedModel& evaluated, DeviceDataset& data, const DistributedSampler& sampler)
    : Evaluator(evaluated, data, sampler, nullptr) {}

std::optional<Evaluation> Evaluator::run(const std::function<bool()>& go_on) {
  const Stopwatch watch;
  if (precise_bn_ && !precise_bn_->run(go_on)) return std::nullopt;
  const double recomputed = watch.seconds();

  const int64_t steps = sampler_.steps_per_epoch(), sequence_length = data_.data.sequence_length();
  const auto labels_of_sample = static_cast<double>(std::max<int64_t>(1, sequence_length));
  Device& device = evaluated_.device;
  float* const stats = host_stats_.as<float>();
  auto* const ranked = ranked_.as<RankedClass>();
  RankedClass* host_ranked = host_ranked_.as<RankedClass>();
  std::array<double, 4> sums{};  // loss, correct, samples, excluded samples
  Prefetcher prefetcher(data_, sampler_, 0, steps, kEvaluationFences);
  for (int64_t step = 0; step < steps; ++step) {
    if (!go_on()) return std::nullopt;
    const DeviceBatch& batch = prefetcher.next();
    stats[2 * step] = stats[2 * step + 1] = 0;
    if (batch.size == 0) continue;
    const auto work = [&] { evaluated_.model.evaluate(batch, evaluated_.running_stats, stats_.as<float>(), ranked); };
    graphs_->run({.size = batch.size}, std::ref(work));
    device.download(stats + 2 * step, stats_.data(), kStatBytes);
    if (ranked) {
      device.download(host_ranked, ranked, bytes_of_ranked(batch.size));
      host_ranked += batch.size;
    }
    sums[2] += static_cast<double>(batch.size - batch.excluded);
    sums[3] += static_cast<double>(batch.excluded);
  }
  device.synchronize();
  for (int64_t step = 0; step < steps; ++step) {
    sums[0] += stats[2 * step];
    sums[1] += std::round(stats[2 * step + 1] * labels_of_sample);
  }
  evaluated_.communicator.all_reduce_host(sums);

  const int64_t samples = std::llround(sums[2]), excluded = std::llround(sums[3]);
  const int64_t expected = sampler_.samples();
  if (samples + excluded != expected)
    throw CollectiveError(Exit::internal, fmt::format("evaluation saw {} samples of {}", samples, expected));
  return Evaluation{.correct = std::llround(sums[1]),
                    .samples = samples,
                    .expected_samples = expected,
                    .excluded = excluded,
                    .sequence_length = sequence_length,
                    .loss = samples == 0 ? 0 : sums[0] / sums[2],
                    .statistics_samples = precise_bn_ ? precise_bn_->samples() : 0,
                    .statistics_seconds = precise_bn_ ? recomputed : 0};
}

ClassCounts Evaluator::count_classes() const {
  DDP_EXPECT(data_.data.sequence_length() == 0);
  ClassCounts counts(data_.data.classes());
  const auto* ranked = host_ranked_.as<RankedClass>();
  for (int64_t step = 0; step < sampler_.steps_per_epoch(); ++step) {
    const Range shard = sampler_.shard(step);
    for (int64_t i = shard.begin; i < shard.end; ++i, ++ranked) {
      const int64_t id = sampler_.sample(0, i);
      if (ranked->label_rank >= 0) counts.add(data_.data.label(id), *ranked);
    }
  }
  counts.sum_over_ranks(evaluated_.communicator);
  return counts;
}

}  // namespace ddp
