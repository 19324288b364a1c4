#include "train/speed_meter.h"

#include "core/stopwatch.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace ddp {
namespace {

void add_to(StepTimes& sum, const StepTimes& times) {
  sum.data += times.data;
  sum.compute += times.compute;
  sum.exposed_comm += times.exposed_comm;
}

StepSpeed mean_of(const StepSpeed& sums, int64_t steps) {
  StepSpeed mean = sums;
  for (StepTimes& times : mean.ranks)
    for (double* part : {&times.data, &times.compute, &times.exposed_comm}) *part /= static_cast<double>(steps);
  return mean;
}

double communication_ms(Replica& replica) {
  if (replica.communicator.size() == 1) return 0;
  replica.zero_gradients();  // sums of sums would grow
  return median_ms(replica, 1, [&] {
    for (int c = 0; c < replica.reducer.collectives(); ++c) replica.reducer.run_alone(c);
  });
}

}  // namespace

double median_ms(Replica& replica, int runs, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i <= runs; ++i) {
    replica.communicator.barrier();
    const Stopwatch watch;
    work();
    replica.device.synchronize();
    std::vector<double> by_rank(replica.communicator.size());
    by_rank[replica.communicator.rank()] = watch.milliseconds();
    replica.communicator.all_reduce_host(by_rank);
    if (i > 0) times.push_back(*std::max_element(by_rank.begin(), by_rank.end()));
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return times[runs / 2];
}

void SpeedMeter::add(const StepResult& step) {
  if (++seen_ <= kWarmUp) return;
  ++steps_;
  add_to(sum_, {.data = step.data_ms, .compute = step.compute_ms, .exposed_comm = step.exposed_comm_ms});
}

std::optional<StepSpeed> SpeedMeter::take(Replica& replica) {
  const int64_t steps = std::exchange(steps_, 0);
  if (steps == 0) return std::nullopt;
  const int world = replica.communicator.size();
  if (taken_.ranks.empty()) {
    taken_.ranks.resize(world);
    taken_.communication = communication_ms(replica);
  }
  const StepTimes mine = std::exchange(sum_, {});
  std::vector<double> parts(3 * static_cast<size_t>(world));
  const auto of_rank = [&](int rank) { return std::span(parts).subspan(3 * static_cast<size_t>(rank), 3); };
  std::ranges::copy(std::array{mine.data, mine.compute, mine.exposed_comm},
                    of_rank(replica.communicator.rank()).begin());
  replica.communicator.all_reduce_host(parts);
  StepSpeed speed{.ranks = {}, .communication = taken_.communication};
  for (int rank = 0; rank < world; ++rank) {
    const auto values = of_rank(rank);
    speed.ranks.push_back({.data = values[0], .compute = values[1], .exposed_comm = values[2]});
    add_to(taken_.ranks[rank], speed.ranks.back());
  }
  taken_steps_ += steps;
  return mean_of(speed, steps);
}

std::optional<StepSpeed> SpeedMeter::whole() const {
  if (taken_steps_ == 0) return std::nullopt;
  return mean_of(taken_, taken_steps_);
}

}  // namespace ddp
