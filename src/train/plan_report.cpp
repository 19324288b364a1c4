#include "train/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace ddp {
namespace {

constexpr int kRuns = 5;

// The median over a few runs of the slowest rank's time.
double median_ms(Replica& replica, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i <= kRuns; ++i) {
    replica.communicator.barrier();
    const auto start = std::chrono::steady_clock::now();
    work();
    replica.device.synchronize();
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
    std::vector<double> by_rank(replica.communicator.size());
    by_rank[replica.communicator.rank()] = taken.count();
    replica.communicator.sum_host(by_rank);
    if (i > 0) times.push_back(*std::max_element(by_rank.begin(), by_rank.end()));
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

double kib(int64_t floats) { return static_cast<double>(floats) * 4 / 1024; }

}  // namespace

std::string plan_report(Replica& replica, const DistributedSampler& sampler) {
  const int64_t local = sampler.shard(0).size();
  Buffer pixels(replica.device, static_cast<size_t>(std::max<int64_t>(local, 1) * replica.model.input().elements()));
  Buffer labels(replica.device, static_cast<size_t>(std::max<int64_t>(local, 1)) * sizeof(int32_t));
  const Pass pass{.kind = Pass::Kind::train,
                  .samples = {.pixels = pixels.as<uint8_t>(),
                              .labels = labels.as<int32_t>(),
                              .keys = labels.as<int32_t>(),
                              .size = local},
                  .global_size = sampler.micro_batch(0, 0).size(),
                  .mode = Gradient::overwrite,
                  .state = replica.state(),
                  .epoch = reinterpret_cast<const uint32_t*>(replica.gradients() + replica.frame.epoch)};
  const double compute = sampler.micro_batches() *
                         median_ms(replica, [&] { replica.model.forward_backward(pass, 1.0f, replica.ticket()); });
  std::string text = fmt::format("{} parameters in {} buckets, launched in this order:\n",
                                 total_count(replica.parameters), replica.plan.buckets.size());
  double communication = 0, last = 0;
  for (size_t b = 0; b < replica.plan.buckets.size(); ++b) {
    const Bucket& bucket = replica.plan.buckets[b];
    last = median_ms(replica, [&] {
      Communicator& c = replica.communicator;
      c.wait(c.sum({replica.gradients() + bucket.offset, bucket.count, DType::f32}));
    });
    communication += last;
    text += fmt::format("  bucket {}: {:10.1f} KiB, allreduce {:7.3f} ms:", b, kib(bucket.count), last);
    for (ParameterId id = bucket.first; id < bucket.end; ++id) text += " " + replica.parameters[id].name;
    text += b + 1 == replica.plan.buckets.size() ? " + tail\n" : "\n";
  }
  const double state = static_cast<double>(replica.update.state_bytes()) / 1024;
  const double activations = static_cast<double>(replica.model.activation_bytes()) / 1024;
  text += fmt::format(
      "memory of a rank: weights {:.1f} KiB, gradients {:.1f} KiB, optimizer {:.1f} KiB, activations {:.1f} KiB\n"
      "predicted step: compute {:.2f} ms, communication {:.2f} ms, of which {:.2f} ms (the last bucket) cannot be "
      "hidden: "
      "{:.2f} to {:.2f} ms\n"
      "predicted epoch: {:.1f} to {:.1f} s ({} steps)\n",
      kib(replica.plan.padded), kib(replica.plan.total), state, activations, compute, communication, last,
      compute + last, compute + communication, 1e-3 * static_cast<double>(sampler.steps_per_epoch()) * (compute + last),
      1e-3 * static_cast<double>(sampler.steps_per_epoch()) * (compute + communication), sampler.steps_per_epoch());
  return text;
}

}  // namespace ddp
