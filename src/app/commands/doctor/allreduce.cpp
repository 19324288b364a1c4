#include "app/commands/doctor/measure.h"
#include "core/stopwatch.h"
#include "device/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace ddp::doctor {
namespace {

constexpr int64_t kFloats = int64_t{2} << 20;  // 8 MiB, the default size limit of the largest bucket

// Values whose sums are exact in f32 in any order.
float value(int64_t i, int rank) { return static_cast<float>(i % 61 + rank % 64); }

double seconds_of(Communicator& transport, Device& device, const DeviceSpan& span) {
  transport.barrier();
  const Stopwatch watch;
  transport.wait(transport.all_reduce(span));
  device.synchronize();
  return watch.seconds();
}

double median_of(int times, Communicator& transport, Device& device, const DeviceSpan& span) {
  std::vector<double> seconds;
  for (int i = 0; i < times; ++i) seconds.push_back(seconds_of(transport, device, span));
  std::nth_element(seconds.begin(), seconds.begin() + times / 2, seconds.end());
  return seconds[times / 2];
}

void check_sum(AllreduceTrial& trial, Device& device, Communicator& transport, float* data) {
  std::vector<float> host(kFloats);
  for (int64_t i = 0; i < kFloats; ++i) host[i] = value(i, transport.rank());
  device.upload(data, host.data(), host.size() * sizeof(float));
  transport.wait(transport.all_reduce(DeviceSpan::of({data, host.size()})));
  device.download(host.data(), data, host.size() * sizeof(float));
  device.synchronize();
  std::vector<double> wrong(2 * transport.size());  // by rank: the expected and the actual sum
  for (int64_t i = 0; i < kFloats && wrong[2 * transport.rank()] == 0; ++i) {
    double expected = 0;
    for (int rank = 0; rank < transport.size(); ++rank) expected += value(i, rank);
    if (host[i] == static_cast<float>(expected)) continue;
    wrong[2 * transport.rank()] = expected + 1;  // + 1: 0 means no wrong sum
    wrong[2 * transport.rank() + 1] = host[i];
  }
  transport.all_reduce_host(wrong);
  for (int rank = transport.size() - 1; rank >= 0; --rank)
    if (wrong[2 * rank] != 0) {
      trial.wrong_rank = rank;
      trial.expected = wrong[2 * rank] - 1;
      trial.got = wrong[2 * rank + 1];
    }
}

}  // namespace

AllreduceTrial try_allreduce(Device& device, Communicator& transport) {
  AllreduceTrial trial{.ranks = transport.size(), .bytes = kFloats * static_cast<int64_t>(sizeof(float))};
  Memory& memory = transport.memory() ? *transport.memory() : static_cast<Memory&>(device);
  const Buffer buffer(memory, static_cast<size_t>(trial.bytes));
  auto* const data = buffer.as<float>();
  check_sum(trial, device, transport, data);
  device.zero(data, buffer.bytes());  // zeros, so that repeated sums do not overflow
  device.synchronize();
  trial.latency = median_of(50, transport, device, DeviceSpan::of({data, 1}));
  const double time = median_of(5, transport, device, DeviceSpan::of({data, static_cast<size_t>(kFloats)}));
  trial.bus_bandwidth = bus_bandwidth(trial.bytes, time, trial.ranks);
  device.synchronize();
  return trial;
}

double bus_bandwidth(int64_t bytes, double seconds, int ranks) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds;
}

Findings check_allreduce(const AllreduceTrial& trial, const std::string& transport, const std::string& fix) {
  if (trial.ranks == 1) return all_ok("allreduce", "one rank: no allreduce");
  const std::string found =
      fmt::format("over {}: exact, {:.1f} us for 4 bytes, bus bandwidth {:.2f} GB/s at {:.0f} MiB", transport,
                  trial.latency * 1e6, trial.bus_bandwidth / 1e9, static_cast<double>(trial.bytes) / (1 << 20));
  if (trial.wrong_rank < 0) return all_ok("allreduce", found);
  return with_found({fault(Exit::communication,
                           fmt::format("over {}: rank {} got {:g} instead of {:g}: the transport corrupts data",
                                       transport, trial.wrong_rank, trial.got, trial.expected),
                           fix)},
                    "allreduce", "wrong sums");
}

}  // namespace ddp::doctor
