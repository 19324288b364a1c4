#include "train/observers/speed_meter.h"

#include "core/stopwatch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace ddp {
namespace {

StepSpeed mean_of(StepSpeed sums, int64_t steps) {
  for (StepTimes& times : sums.ranks)
    for (double* part : {&times.data, &times.compute, &times.exposed_comm}) *part /= static_cast<double>(steps);
  return sums;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

double slowest_ms(Replica& replica, const std::function<void()>& work) {
  replica.communicator.barrier();
  const Stopwatch watch;
  work();
  replica.device.synchronize();
  std::vector<double> by_rank(replica.communicator.size());
  by_rank[replica.communicator.rank()] = watch.milliseconds();
  replica.communicator.all_reduce_host(by_rank);
  return *std::ranges::max_element(by_rank);
}

double median_ms(Replica& replica, int runs, const std::function<void()>& work) {
  slowest_ms(replica, work);
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) times.push_back(slowest_ms(replica, work));
  return median(std::move(times));
}

SpeedMeter::SpeedMeter(Replica& replica, const DistributedSampler& sampler) : replica_(replica), sampler_(sampler) {
  taken_.batch = sampler.global_batch_size(0);
  taken_.micro_batches = sampler.micro_batches();
  taken_.computes_with_collectives = replica.communicator.size() > 1 && (replica.reducer.sharded() || replica.sync_bn);
}

void SpeedMeter::add(const StepResult& step) {
  if (++seen_ <= kWarmUp) return;
  ++steps_;
  sum_ += step.times;
  if (step.samples != taken_.batch || !step.skipped.empty()) return;
  const int world = replica_.communicator.size();
  ++noise_steps_;
  squares_.parts += step.local_squares / world;  // each rank has the sum
  squares_.whole += replica_.optimizer.sums_own_part() ? step.squares : step.squares / world;
}

// The shares of the ranks in a step, or of its first micro-batch if there is one rank; and the collectives alone.
void SpeedMeter::begin(const std::function<void()>& enter) {
  const int world = replica_.communicator.size();
  const auto batch = static_cast<double>(taken_.batch);
  double samples = 0;
  for (int micro = 0; micro < sampler_.micro_batches(); ++micro)
    if (micro == 0 || world > 1) samples += static_cast<double>(sampler_.shard(0, micro).size());
  squares_.share = samples / batch * (samples / batch);
  squares_.noise = world > 1 ? 1 : samples / batch;
  replica_.communicator.all_reduce_host({&squares_.share, 1});
  taken_.ranks.resize(world);
  taken_.communication = communication_ms(enter);
}

// One to five runs, in 0.3 s if possible.
double SpeedMeter::communication_ms(const std::function<void()>& enter) const {
  if (replica_.communicator.size() == 1) return 0;
  const auto run = [&] {
    enter();
    replica_.zero_gradients();  // sums of sums would grow
    return slowest_ms(replica_, [&] {
      for (int c = 0; c < replica_.reducer.collectives(); ++c) replica_.reducer.run_alone(c);
    });
  };
  std::vector<double> times(static_cast<size_t>(std::clamp(300 / run(), 1.0, 5.0)));
  for (double& time : times) time = run();
  return median(std::move(times));
}

// Also estimates the noise scale, if there are enough steps for it.
std::vector<StepTimes> SpeedMeter::sums_over_ranks() {
  constexpr size_t kParts = 3;
  const int world = replica_.communicator.size(), rank = replica_.communicator.rank();
  std::vector<double> sums(kParts * static_cast<size_t>(world) + 2);
  const std::array mine{sum_.data, sum_.compute, sum_.exposed_comm};
  std::ranges::copy(mine, sums.begin() + static_cast<int64_t>(kParts) * rank);
  sums.end()[-2] = squares_.parts;
  sums.end()[-1] = squares_.whole;
  replica_.communicator.all_reduce_host(sums);
  sum_ = {};

  std::vector<StepTimes> ranks;
  for (size_t i = 0; i + 2 < sums.size(); i += kParts)
    ranks.push_back({.data = sums[i], .compute = sums[i + 1], .exposed_comm = sums[i + 2]});
  if (noise_steps_ < kNoiseSteps) return ranks;
  noise_steps_ = 0;
  squares_.parts = squares_.whole = 0;
  const double noise =
      noise_scale({.parts = sums.end()[-2], .whole = sums.end()[-1], .share = squares_.share, .noise = squares_.noise},
                  static_cast<double>(taken_.batch));
  if (std::isfinite(noise)) taken_.noise_scale = noise;
  return ranks;
}

std::optional<StepSpeed> SpeedMeter::take(const std::function<void()>& enter) {
  const int64_t steps = std::exchange(steps_, 0);
  if (steps == 0) return std::nullopt;
  enter();
  if (taken_.ranks.empty()) begin(enter);
  const std::vector<StepTimes> sums = sums_over_ranks();
  for (size_t rank = 0; rank < sums.size(); ++rank) taken_.ranks[rank] += sums[rank];
  taken_steps_ += steps;
  StepSpeed speed = taken_;
  speed.ranks = sums;
  return mean_of(std::move(speed), steps);
}

std::optional<StepSpeed> SpeedMeter::over_the_run() const {
  if (taken_steps_ == 0) return std::nullopt;
  return mean_of(taken_, taken_steps_);
}

}  // namespace ddp
