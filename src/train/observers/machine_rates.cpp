#include "train/observers/machine_rates.h"

#include "device/buffer.h"
#include "train/observers/speed_meter.h"

#include <functional>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kSmallestSide = 64, kLargestSide = 8192;
constexpr int64_t kSmallestCopy = int64_t{1} << 20, kLargestCopy = int64_t{64} << 20;  // bytes; in few caches fit two
constexpr double kLongProductMs = 5, kLongCopyMs = 20;
constexpr int kTimedRuns = 5;

struct TimedWork {
  double seconds = 0;     // of this rank, by the device's clock
  double slowest_ms = 0;  // of all ranks, by the host's clock
};

// Medians, after one run that does not count.
TimedWork time_on_device(Replica& replica, const std::function<void()>& work) {
  Device& device = replica.device;
  const Buffer stamps(device, 2 * sizeof(int64_t)), read(device.host_memory(), 2 * sizeof(int64_t));
  const auto* const ns = read.as<int64_t>();
  auto* const stamp = stamps.as<int64_t>();
  std::vector<double> seconds, slowest;
  for (int run = 0; run <= kTimedRuns; ++run) {
    const double ms = slowest_ms(replica, [&] {
      device.timestamp(stamp);
      work();
      device.timestamp(stamp + 1);
    });
    if (run == 0) continue;
    device.download(read.data(), stamps.data(), stamps.bytes());
    device.synchronize();
    seconds.push_back(1e-9 * static_cast<double>(ns[1] - ns[0]));
    slowest.push_back(ms);
  }
  return {median(seconds), median(slowest)};
}

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

TimedWork time_product(Replica& replica, int64_t side) {
  Ops& ops = replica.ops;
  const DType type = ops.activation_dtype();
  const int64_t batch_sizes[] = {1};
  const auto product = ops.linear({.in_features = side,
                                   .out_features = side,
                                   .input_format = {},
                                   .positions = side,
                                   .dense = true,
                                   .bias = false,
                                   .bias_gradient = false,
                                   .weight_gradient = false,
                                   .input_gradient = false},
                                  batch_sizes);
  const auto elements = static_cast<size_t>(side * side);
  const Buffer x(replica.device, elements * size_of(type)), y(replica.device, elements * size_of(type));
  const Buffer weights(replica.device, elements * sizeof(float));  // in bf16, half of it
  product->bind({weights.as<float>(), weights.as<uint16_t>()}, {});
  const Shape shape{1, {side, 1, side}};
  return time_on_device(replica, [&] { product->forward({x.data(), shape, {}, type}, {y.data(), shape, {}, type}); });
}

TimedWork time_copy(Replica& replica, int64_t bytes) {
  const Buffer from(replica.device, static_cast<size_t>(bytes)), to(replica.device, static_cast<size_t>(bytes));
  const int64_t floats = bytes / static_cast<int64_t>(sizeof(float));
  return time_on_device(
      replica, [&] { replica.ops.copy_or_add(from.as<float>(), to.as<float>(), floats, Gradient::overwrite); });
}

}  // namespace

MachineRates measure_machine_rates(Replica& replica) {
  MachineRates rates;
  for (int64_t side = kSmallestSide; side <= kLargestSide; side *= 2) {
    const TimedWork timed = time_product(replica, side);
    const auto edge = static_cast<double>(side);
    if (const double rate = per_second(2 * edge * edge * edge, timed.seconds); rate > rates.flops_per_second) {
      rates.flops_per_second = rate;
      rates.side = side;
    }
    if (timed.slowest_ms > kLongProductMs) break;
  }
  for (int64_t bytes = kSmallestCopy; bytes <= kLargestCopy; bytes *= 2) {
    const TimedWork timed = time_copy(replica, bytes);
    rates.bytes_per_second = per_second(2 * static_cast<double>(bytes), timed.seconds);
    rates.copied = bytes;
    if (timed.slowest_ms > kLongCopyMs) break;
  }
  return rates;
}

}  // namespace ddp
