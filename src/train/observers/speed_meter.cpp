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
  for (double& samples : sums.samples) samples /= static_cast<double>(steps);
  return sums;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

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
  last_ = step.step;
  if (++seen_ <= kWarmUp) return;
  ++steps_;
  sum_ += step.times;
  if (step.samples != taken_.batch || !step.skipped.empty()) return;
  const int world = replica_.communicator.size();
  ++noise_steps_;
  squares_.parts += step.local_squares / world;  // each rank has the sum
  squares_.whole += replica_.optimizer.sums_own_part() ? step.squares : step.squares / world;
}

void SpeedMeter::begin(const std::function<void()>& enter) {
  measure_shares();
  taken_.ranks.resize(replica_.communicator.size());
  taken_.samples.resize(replica_.communicator.size());
  taken_.communication = communication_ms(enter);
}

// The shares of the ranks in a step, or of its first micro-batch if there is one rank.
void SpeedMeter::measure_shares() {
  const int world = replica_.communicator.size();
  const auto batch = static_cast<double>(taken_.batch);
  double samples = 0;
  for (int micro = 0; micro < sampler_.micro_batches(); ++micro)
    if (micro == 0 || world > 1) samples += static_cast<double>(sampler_.shard(0, micro).size());
  squares_.share = samples / batch * (samples / batch);
  squares_.noise = world > 1 ? 1 : samples / batch;
  replica_.communicator.all_reduce_host({&squares_.share, 1});
}

// The estimate of the noise scale begins again.
void SpeedMeter::shards_changed() {
  seen_ = noise_steps_ = 0;
  squares_.parts = squares_.whole = 0;
  measure_shares();
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

// Of the last `steps` steps of this rank. Only the last step of an epoch has another number of samples.
double SpeedMeter::own_samples(int64_t steps) const {
  const int64_t per_epoch = sampler_.steps_per_epoch(), ends = last_ / per_epoch - (last_ - steps) / per_epoch;
  const auto in_step = [&](int64_t step) { return sampler_.plan(step * sampler_.micro_batches()).local_step_size; };
  return static_cast<double>((steps - ends) * in_step(0) + ends * in_step(per_epoch - 1));
}

// Also estimates the noise scale, if there are enough steps for it.
StepSpeed SpeedMeter::sums_over_ranks(int64_t steps) {
  constexpr size_t kParts = 4;
  const int world = replica_.communicator.size(), rank = replica_.communicator.rank();
  std::vector<double> sums(kParts * static_cast<size_t>(world) + 2);
  const std::array mine{sum_.data, sum_.compute, sum_.exposed_comm, own_samples(steps)};
  std::ranges::copy(mine, sums.begin() + static_cast<int64_t>(kParts) * rank);
  sums.end()[-2] = squares_.parts;
  sums.end()[-1] = squares_.whole;
  replica_.communicator.all_reduce_host(sums);
  sum_ = {};

  StepSpeed speed;
  for (size_t i = 0; i + 2 < sums.size(); i += kParts) {
    speed.ranks.push_back({.data = sums[i], .compute = sums[i + 1], .exposed_comm = sums[i + 2]});
    speed.samples.push_back(sums[i + 3]);
  }
  if (noise_steps_ < kNoiseSteps) return speed;
  noise_steps_ = 0;
  squares_.parts = squares_.whole = 0;
  const double noise =
      noise_scale({.parts = sums.end()[-2], .whole = sums.end()[-1], .share = squares_.share, .noise = squares_.noise},
                  static_cast<double>(taken_.batch));
  if (std::isfinite(noise)) taken_.noise_scale = noise;
  return speed;
}

std::optional<StepSpeed> SpeedMeter::take(const std::function<void()>& enter) {
  const int64_t steps = std::exchange(steps_, 0);
  if (steps == 0) return std::nullopt;
  enter();
  if (taken_.ranks.empty()) begin(enter);
  StepSpeed sums = sums_over_ranks(steps);
  for (size_t rank = 0; rank < sums.ranks.size(); ++rank) {
    taken_.ranks[rank] += sums.ranks[rank];
    taken_.samples[rank] += sums.samples[rank];
  }
  taken_steps_ += steps;
  StepSpeed speed = taken_;
  speed.ranks = std::move(sums.ranks);
  speed.samples = std::move(sums.samples);
  return mean_of(std::move(speed), steps);
}

std::optional<StepSpeed> SpeedMeter::over_the_run() const {
  if (taken_steps_ == 0) return std::nullopt;
  return mean_of(taken_, taken_steps_);
}

}  // namespace ddp
