#include "train/observers/measure_costs.h"

#include "comm/broadcast_host.h"
#include "core/stopwatch.h"
#include "ddp/bucket_plan.h"
#include "ddp/fit_link.h"
#include "train/observers/blank_batch.h"
#include "train/observers/speed_meter.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

namespace ddp {
namespace {

constexpr double kPassesMs = 2000, kSizeMs = 150, kLinkMs = 1000;
constexpr int64_t kLargestCollective = (8 << 20) / sizeof(float);  // elements
constexpr double kLeastMs = 1e-6;                                  // a clock may stand still

// How often work is repeated that took so long: once at least.
int repetitions(double once_ms, double limit_ms, int most) {
  return static_cast<int>(std::clamp(limit_ms / std::max(once_ms, kLeastMs), 1.0, static_cast<double>(most)));
}

// The times in ms at which a pass of this rank has the gradient of each parameter, then its end.
class PassClock {
 public:
  PassClock(Replica& replica, const DeviceBatch& batch)
      : replica_(replica),
        batch_(batch),
        stamps_(replica.device, stamps() * sizeof(int64_t)),
        read_(replica.device.host_memory(), stamps() * sizeof(int64_t)) {}

  void run() {
    Device& device = replica_.device;
    auto* const stamp = stamps_.as<int64_t>();
    device.timestamp(stamp);
    replica_.model.forward_backward(batch_, [&](int id) { device.timestamp(stamp + 1 + id); });
    device.timestamp(stamp + stamps() - 1);
  }

  std::vector<double> times() {
    replica_.device.download(read_.data(), stamps_.data(), stamps_.bytes());
    replica_.device.synchronize();
    const std::span read(read_.as<int64_t>(), stamps());
    std::vector<double> times;
    for (const int64_t ns : read.subspan(1)) times.push_back(1e-6 * static_cast<double>(ns - read[0]));
    return times;
  }

 private:
  size_t stamps() const { return replica_.plan.parameter_counts.size() + 2; }

  Replica& replica_;
  const DeviceBatch& batch_;
  const Buffer stamps_, read_;
};

// Medians of this rank, then means over the ranks with samples, made non-falling.
void measure_pass(Replica& replica, const DeviceBatch& batch, int most, StepCosts& costs) {
  PassClock clock(replica, batch);
  const int runs = repetitions(slowest_ms(replica, [&] { clock.run(); }), kPassesMs, most);
  std::vector<std::vector<double>> by_stamp(replica.plan.parameter_counts.size() + 1);
  for (int i = 0; i < runs; ++i) {
    slowest_ms(replica, [&] { clock.run(); });
    const std::vector<double> times = clock.times();
    for (size_t s = 0; s < times.size(); ++s) by_stamp[s].push_back(times[s]);
  }
  const double counts = batch.size > 0 ? 1 : 0;  // an empty shard computes nothing
  std::vector<double> sums;
  for (const std::vector<double>& times : by_stamp) sums.push_back(counts * std::max(median(times), 0.0));
  sums.push_back(counts);
  replica.communicator.all_reduce_host(sums);
  const double ranks = std::max(1.0, sums.back());  // 0 where the first micro-batch is empty
  for (double& sum : sums) sum /= ranks;
  sums.pop_back();
  std::inclusive_scan(sums.begin(), sums.end(), sums.begin(), [](double a, double b) { return std::max(a, b); });
  costs.compute_ms = sums.back();
  sums.pop_back();
  costs.ready_ms = std::move(sums);
}

// Collectives of a few sizes, alone, through the reducer's communicator.
void measure_link(Replica& replica, StepCosts& costs) {
  Communicator& communicator = replica.casting ? *replica.casting : replica.communicator;
  const bool sharded = replica.reducer.sharded();
  const int64_t multiple = sharded ? partition_alignment(communicator.size()) : 1;
  const int64_t largest = std::min(replica.plan.padded, kLargestCollective) / multiple * multiple;
  std::vector<float> ones, lost;  // residuals: zeros would take no time to round
  if (replica.sums_in_int8()) ones.assign(largest, 1), lost.resize(largest);
  double launch = 0;
  const auto run = [&](int64_t elements) {
    const DeviceSpan span{replica.gradients(), elements, DType::f32, {ones.data(), lost.data()}};
    const Stopwatch watch;
    const auto number = sharded ? communicator.reduce_scatter(span) : communicator.all_reduce(span);
    launch = watch.milliseconds();
    communicator.wait(number);
  };
  const auto timed = [&](int64_t elements) {
    replica.zero_gradients();  // sums of sums would grow
    return slowest_ms(replica, [&] { run(elements); });
  };
  std::vector<TimedCollective> measured;
  std::vector<double> launches;
  double spent = 0;
  for (const int64_t part : {64, 16, 4, 1}) {
    const int64_t elements = std::max(largest / part / multiple, int64_t{1}) * multiple;
    if (!measured.empty() && elements == measured.back().elements) continue;
    if (measured.size() > 1 && spent > kLinkMs) break;
    const double first = timed(elements);
    std::vector<double> times(repetitions(first, kSizeMs, 9));
    for (double& time : times) {
      time = std::max(timed(elements), kLeastMs);
      if (measured.empty()) launches.push_back(launch);
    }
    spent += std::accumulate(times.begin(), times.end(), first);
    measured.push_back({.elements = elements, .ms = median(times)});
  }
  costs.link = fit_link(measured);
  double mean = median(launches) / communicator.size();
  communicator.all_reduce_host({&mean, 1});
  costs.bucket_ms = mean + (sharded ? costs.link.latency_ms : 0);
}

}  // namespace

StepCosts measure_costs(Replica& replica, const Dataset& data, const DistributedSampler& sampler, int passes) {
  const BlankBatch blank(replica, data, sampler);
  StepCosts costs;
  measure_pass(replica, blank.batch, passes, costs);
  if (replica.communicator.size() == 1) return costs;
  measure_link(replica, costs);
  // The same bits on all ranks.
  for (double* const cost : {&costs.compute_ms, &costs.link.latency_ms, &costs.link.ms_per_mib, &costs.bucket_ms})
    broadcast_host(replica.communicator, {cost, 1});
  broadcast_host(replica.communicator, costs.ready_ms);
  return costs;
}

}  // namespace ddp
