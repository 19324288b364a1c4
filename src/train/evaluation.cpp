#include "train/evaluation.h"

#include "core/error.h"
#include "data/loader.h"

#include <array>
#include <cmath>
#include <vector>

namespace ddp {

Evaluation evaluate(Replica& replica, const Dataset& data, const DistributedSampler& sampler) {
  const int64_t steps = sampler.steps_per_epoch();
  Buffer stats(replica.device, static_cast<size_t>(2 * steps) * sizeof(float));
  std::array<double, 3> sums{};  // loss, correct, samples
  Loader loader(data, sampler, 0, steps);
  for (int64_t step = 0; step < steps; ++step) {
    const Batch& batch = loader.next();
    if (batch.size == 0) continue;
    replica.model.evaluate({batch.pixels, batch.labels, batch.size}, stats.as<float>() + 2 * step);
    sums[2] += static_cast<double>(batch.size);
  }
  std::vector<float> host(2 * steps);
  replica.device.download(host.data(), stats.data(), stats.bytes());
  replica.device.synchronize();
  for (int64_t step = 0; step < steps; ++step) {
    sums[0] += host[2 * step];
    sums[1] += host[2 * step + 1];
  }
  replica.communicator.sum_host(sums);

  const auto samples = std::llround(sums[2]);
  if (samples != data.size())
    throw SharedError(Exit::internal, fmt::format("evaluation saw {} samples of {}", samples, data.size()));
  return {
      .correct = std::llround(sums[1]), .samples = samples, .expected_samples = data.size(), .loss = sums[0] / sums[2]};
}

}  // namespace ddp
