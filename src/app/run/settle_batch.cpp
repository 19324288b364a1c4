#include "app/run/settle_batch.h"

#include "app/inputs/reading.h"
#include "app/run/largest_batch.h"
#include "app/run/samplers.h"
#include "comm/local/communicator.h"
#include "core/control_group.h"
#include "device/cpu/device.h"
#include "device/planning_memory.h"
#include "health/run_on_all_ranks.h"
#include "train/step/device_dataset.h"
#include "train/step/prefetcher.h"

#include <algorithm>
#include <limits>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kHostMargin = 64 * kMiB, kDeviceMargin = 768 * kMiB;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

int64_t usable(int64_t available, int64_t margin) { return std::max<int64_t>(0, available - available / 16 - margin); }

int ranks_on_host(MpiSession& session) {
  const auto hosts = session.gather(session.host());
  return static_cast<int>(std::ranges::count(hosts, session.host()));
}

void set_batch(Job& job, int64_t size) {
  const Options& options = job.options;
  job.options.batch.size = size;
  job.samplers =
      make_samplers(options.batch, options.train.step.micro_batches, options.seed, job.samplers.statistics.has_value(),
                    job.data.data, job.session.rank(), weights_of_ranks(options.batch, job.session.size()));
}

// No tensor has 2^31 elements, the limit of cuDNN.
int64_t largest_to_consider(const Job& job) {
  int64_t elements = job.network.input().elements();
  for (const LayerSpec& layer : job.network.layers()) elements = std::max(elements, layer.output.elements());
  require(elements <= std::numeric_limits<int32_t>::max(), Exit::usage,
          "a sample of {} values is more than an op takes; use {}", elements,
          job.network.reads_tokens() ? "a shorter --sequence-length" : "smaller images");
  const auto weights = weights_of_ranks(job.options.batch, job.session.size());
  const double shares = std::accumulate(weights.begin(), weights.end(), 0.0) / std::ranges::max(weights);
  const auto of_rank = static_cast<double>(std::numeric_limits<int32_t>::max() / elements);
  const double most = of_rank * shares * job.options.train.step.micro_batches;
  return std::min(job.data.data.train->size(), static_cast<int64_t>(most));
}

// The memory of this rank. Each function takes the present batch of the job.
class MemoryOfBatches {
 public:
  MemoryOfBatches(Job& job, const Backend& backend, int threads, const BuildModels& build, int sharers)
      : job_(job), backend_(backend), threads_(threads), build_(build), on_host_(backend.device->is_host()) {
    host_ = available_memory(sharers);
    device_ = on_host_ ? host_ : backend.device->memory_use().free;
  }

  int64_t available() const { return device_; }

  int64_t largest(int64_t unit, int64_t most) {
    if (!on_host_) measure_samples(unit, most);
    const auto memory = [&](int64_t size) { return bytes(size); };
    const int64_t found = largest_batch(unit, most, usable(device_, on_host_ ? kHostMargin : kDeviceMargin), memory);
    if (on_host_ || found == 0) return found;
    const auto rings = [&](int64_t size) { return on_host(size); };
    return largest_batch(unit, found, usable(host_, kHostMargin), rings);
  }

  // Of the device, for a global batch.
  int64_t bytes(int64_t size) {
    set_batch(job_, size);
    if (on_host_) {
      const int64_t models = planned();  // sets files_
      return models + files() + rings();
    }
    const double samples = static_cast<double>(job_.samplers.train.largest_shard());
    return at_second_ + static_cast<int64_t>(slope_ * (samples - second_)) + of_data();
  }

 private:
  // In address space.
  int64_t planned() {
    try {
      PlanningMemory memory;
      const auto device = make_cpu_device(memory);
      build_models(*device);
      return memory.peak();
    } catch (const std::bad_alloc&) {  // of a library, under ulimit
      return kEndless / 2;
    } catch (const Error& e) {
      if (e.code() != Exit::device) throw;
      return kEndless / 2;
    }
  }

  void build_models(Device& device) {
    const auto ops = make_planning_ops(backend_, device, threads_);
    const auto alone = std::move(make_local_communicators(1).front());
    files_ = build_(device, *ops, *alone);
  }

  void measure_samples(int64_t unit, int64_t most) {
    constexpr int64_t kUnits[] = {2, 4};
    double samples[2] = {}, taken[2] = {};
    for (const int k : {0, 1}) {
      set_batch(job_, std::min(kUnits[k] * unit, most));
      const int64_t before = backend_.device->memory_use().allocated;
      build_models(*backend_.device);
      samples[k] = static_cast<double>(job_.samplers.train.largest_shard());
      taken[k] = static_cast<double>(backend_.device->memory_use().allocated - before);
    }
    slope_ = samples[1] > samples[0] ? (taken[1] - taken[0]) / (samples[1] - samples[0]) : 0;
    second_ = samples[1];
    at_second_ = static_cast<int64_t>(taken[1]);
  }

  int64_t on_host(int64_t size) {
    set_batch(job_, size);
    return files() + rings();
  }

  int64_t files() const { return job_.session.rank() == 0 ? files_ : 0; }

  // A mixed batch has one sample more in memory.
  template <class Sum>
  int64_t over_samplers(const Sum& sum) const {
    const Samplers& samplers = job_.samplers;
    const Datasets& data = job_.data.data;
    int64_t bytes = sum(*data.train, samplers.train.largest_shard(), job_.options.replica.mix.any());
    if (samplers.test) bytes += sum(*data.test, samplers.test->largest_shard(), false);
    if (samplers.statistics) bytes += sum(data.train->unaugmented(), samplers.statistics->largest_shard(), false);
    return bytes;
  }

  // Of the loaders, as if none had its samples on the device.
  int64_t rings() const {
    return over_samplers([&](const Dataset& data, int64_t largest, bool mixed) {
      return Loader::ring_bytes(largest, data.sample_bytes(),
                                {.keep = on_host_ ? 1 : Prefetcher::kFences, .sample_before = mixed});
    });
  }

  int64_t of_data() const {
    const DataPlacement placement = placement_for(job_.options, job_.data.workers, job_.log);
    return over_samplers([&](const Dataset& data, int64_t largest, bool mixed) {
      return DeviceDataset::bytes_on(*backend_.device, data, largest + (mixed ? 1 : 0), placement);
    });
  }

  Job& job_;
  const Backend& backend_;
  const int threads_;
  const BuildModels& build_;
  const bool on_host_;
  int64_t host_ = 0, device_ = 0;  // available
  int64_t files_ = 0;
  double slope_ = 0, second_ = 0;  // on a GPU: bytes of a sample; samples of the second batch that was built
  int64_t at_second_ = 0;          // bytes of that batch
};

// The least over the ranks.
int64_t least(MpiSession& session, int64_t value) {
  for (const std::string& other : session.gather(fmt::format("{}", value)))
    value = std::min<int64_t>(value, std::stoll(other));
  return value;
}

}  // namespace

void settle_batch(Job& job, const Backend& backend, int threads, const BuildModels& build) {
  MpiSession& session = job.session;
  MemoryOfBatches memory(job, backend, threads, build, ranks_on_host(session));
  const int64_t most = run_on_all_ranks(session, [&] { return largest_to_consider(job); });
  const int64_t unit = unit_of_batches(most, int64_t{session.size()} * job.options.train.step.micro_batches);
  const int64_t own = run_on_all_ranks(session, [&] { return memory.largest(unit, most); });
  const int64_t size = least(session, own);
  const int64_t needed = run_on_all_ranks(session, [&] { return memory.bytes(size > 0 ? size : unit); });
  const int64_t available = least(session, memory.available()) / kMiB, planned = -least(session, -needed) / kMiB + 1;
  if (size == 0) {
    const bool mapped = planned < kEndless / 4 / kMiB;
    const std::string taken = mapped ? fmt::format("{} MiB", planned) : "more than its address space";
    throw CollectiveError(Exit::device,
                          fmt::format("--batch-size max: not even a batch of {} fits: a rank takes {}, {} MiB are "
                                      "available, and a part of these is left for libraries; use more hosts, fewer "
                                      "ranks on a host, or a smaller --model",
                                      unit, taken, available));
  }
  job.log.info("--batch-size max is {}: a rank takes at most {} MiB by the plan, and at least {} MiB were available",
               size, planned, available);
  if (backend.device->is_host())
    job.log.info(
        "the largest batch is rarely the best one, least of all on a CPU: compare it with the gradient noise scale "
        "that the run prints");
  NamedValues given = job.options.given;
  given["--batch-size"] = fmt::format("{}", size);
  const NetworkConfig network = job.options.network;  // with the files that were found
  job.options = run_on_all_ranks(session, [&] { return options_of(given, {}); });
  job.options.network = network;
  set_batch(job, size);
}

}  // namespace ddp
