#include "ops/cuda/cudnn_timing.h"

#include "core/bf16.h"
#include "core/error.h"
#include "core/philox.h"
#include "core/stopwatch.h"
#include "device/cuda/graph_cache.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace ddp::cudnn {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Equal values, such as zeros, would need less power than those of a step, and so run at a higher clock.
class RandomValues {
 public:
  RandomValues(CudaContext& context, DType type) : context_(context), block_(context.device, kBytes) {
    std::vector<uint32_t> words(kBytes / sizeof(uint32_t));
    for (size_t i = 0; i < words.size(); ++i) {
      const auto [a, b, c, d] = philox4x32({{static_cast<uint32_t>(i)}}, 0).word;
      const float first = value(a), second = value(b);
      words[i] = type == DType::f32 ? std::bit_cast<uint32_t>(first)
                                    : bf16_of_float(first) | uint32_t{bf16_of_float(second)} << 16;
    }
    context.device.upload(block_.data(), words.data(), kBytes);
  }

  void fill(const Buffer& buffer) const {
    for (size_t at = 0; at < buffer.bytes(); at += kBytes)
      DDP_CUDA(cudaMemcpyAsync(buffer.as<char>() + at, block_.data(), std::min(kBytes, buffer.bytes() - at),
                               cudaMemcpyDeviceToDevice, context_.stream));
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 20;
  static float value(uint32_t bits) { return 0x1p-31f * static_cast<float>(bits) - 1; }  // from -1 to 1

  CudaContext& context_;
  Buffer block_;
};

class Clock {
 public:
  explicit Clock(cudaStream_t stream) : stream_(stream), start_(timer()), stop_(timer()) {}

  // Of the work that `issue` issues.
  double microseconds(const std::function<void()>& issue) const {
    DDP_CUDA(cudaEventRecord(start_.get(), stream_));
    issue();
    DDP_CUDA(cudaEventRecord(stop_.get(), stream_));
    DDP_CUDA(cudaEventSynchronize(stop_.get()));
    float ms = 0;
    DDP_CUDA(cudaEventElapsedTime(&ms, start_.get(), stop_.get()));
    return 1000.0 * ms;
  }

  // Of one of kRuns calls of `issue` in a graph. The fastest round counts, because disturbances only make rounds
  // slower.
  double in_a_graph(const std::function<void()>& issue) const {
    constexpr int kRounds = 3, kRuns = 10;
    const CudaGraphExec graph = capture_graph(stream_, [&] {
      for (int run = 0; run < kRuns; ++run) issue();
    });
    double best = kInfinity;
    for (int round = 0; round < kRounds; ++round)
      best = std::min(best, microseconds([&] { DDP_CUDA(cudaGraphLaunch(graph.get(), stream_)); }));
    return best / kRuns;
  }

 private:
  static CudaEvent timer() {
    cudaEvent_t event = nullptr;
    DDP_CUDA(cudaEventCreate(&event));
    return CudaEvent(event);
  }

  cudaStream_t stream_;
  CudaEvent start_, stop_;
};

size_t cache_bytes() {
  int device = 0;
  cudaDeviceProp properties{};
  DDP_CUDA(cudaGetDevice(&device));
  DDP_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.l2CacheSize;
}

}  // namespace

// Plans come in the order of the speed that cuDNN expects: those left when the time is out are hardly the fastest.
std::vector<double> measure(CudaContext& context, cudnnHandle_t handle, std::span<Plan> plans,
                            std::span<const int64_t> bytes, DType type, double seconds) {
  DDP_EXPECT(!plans.empty());
  const Stopwatch since_begin;
  const RandomValues random(context, type);
  std::vector<Buffer> operands;
  std::vector<void*> pointers;
  for (const int64_t size : bytes) {
    random.fill(operands.emplace_back(context.device, size));
    pointers.push_back(operands.back().data());
  }
  int64_t most = 1;
  for (const Plan& plan : plans) most = std::max(most, plan.workspace());
  const Buffer workspace(context.device, most);
  const size_t cache = cache_bytes();
  const bool evicts = std::accumulate(bytes.begin(), bytes.end(), size_t{0}) > cache;
  const Buffer other(context.device, evicts ? 2 * cache : 1);
  const auto evict = [&] {
    if (evicts) context.device.zero(other.data(), other.bytes());
  };

  const Clock clock(context.stream);
  const double of_eviction = evicts ? clock.in_a_graph(evict) : 0;
  std::vector<double> times(plans.size(), kInfinity);
  double best = kInfinity;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (std::isfinite(best) && since_begin.seconds() > seconds) break;
    const auto run = [&] { plans[i].run(handle, pointers, workspace.data()); };
    try {
      run();  // loads its kernels
      times[i] = clock.microseconds(run);
      // Outside of a graph a short run takes as long as the host needs to issue it.
      constexpr double kIssue = 100;
      if (times[i] > kIssue + 3 * best) continue;
      times[i] = clock.in_a_graph([&] {
        evict();
        run();
      });
      times[i] = std::max(times[i] - of_eviction, 0.0);
    } catch (const Error&) {
      cudaGetLastError();  // else the next plan would be blamed
      times[i] = kInfinity;
    }
    best = std::min(best, times[i]);
  }
  require(std::isfinite(best), Exit::device, "none of cuDNN's {} plans for this pass runs on this GPU", plans.size());
  return times;
}

}  // namespace ddp::cudnn
