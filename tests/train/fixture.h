// The training parts of one rank, built as in the program, with access to single steps.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "nn/init.h"
#include "tests/train/judge.h"
#include "train/evaluation/evaluation.h"
#include "train/step/device_dataset.h"
#include "train/step/prefetcher.h"
#include "train/step/replica.h"
#include "train/step/step.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp::testing {

struct FixtureConfig {
  int64_t batch_size = 256;
  double lr = 0.02;
  uint64_t seed = 0;
  Order order = Order::shuffled;
  std::vector<double> rank_weights = {};  // empty: equal weights
  ReplicaConfig replica = {};             // Fixture sets its batch sizes
  StepConfig step = {};
  size_t device_data_bytes = size_t{1} << 30;
  SpanRecorder* spans = nullptr;
};

class Fixture {
 public:
  static constexpr double kAverageRate = 0.25;  // of a replica with an average, in each step

  Fixture(const FixtureConfig& config, const Network& network, const Dataset& data, Device& device, Ops& ops,
          Communicator& communicator)
      : config_(config),
        data_(data),
        sampler_(data.size(), config.batch_size, config.order, config.seed, communicator.rank(),
                 config.rank_weights.empty() ? std::vector<double>(communicator.size(), 1.0) : config.rank_weights,
                 config.step.micro_batches),
        replica(network, replica_config(), device, ops, communicator) {
    std::vector<float> weights(replica.weights_count);
    initialize(weights, replica.parameters, {}, config.seed);
    replica.load(weights);
  }

  // The losses of the steps [first, end), counted from 0 over all epochs, from the weights as they are. `change` may
  // tamper with each batch before it is used.
  std::vector<double> losses(int64_t first, int64_t end, const std::function<void(DeviceBatch&)>& change = {}) {
    std::vector<double> losses;
    run(first, end, change, false, [&](const StepResult& result) { losses.push_back(result.loss); });
    return losses;
  }

  // The steps [0, end), each followed by `see`, when no step is in flight. `look` comes before each micro-batch.
  void each_step(int64_t end, const std::function<void(DeviceBatch&)>& look,
                 const std::function<void(const StepResult&)>& see) {
    run(0, end, look, true, see);
  }

  const DistributedSampler& sampler() const { return sampler_; }
  int64_t largest() const { return sizes().back(); }

 private:
  // `alone`: no other step is in flight.
  void run(int64_t first, int64_t end, const std::function<void(DeviceBatch&)>& change, bool alone,
           const std::function<void(const StepResult&)>& see) {
    StepConfig step_config = config_.step;
    step_config.done = first;
    Step step(replica, step_config, nullptr, config_.spans);
    DeviceDataset data(replica.device, data_, largest(),
                       {.device_bytes = config_.device_data_bytes,
                        .mix = replica.batch_mix(),
                        .class_weights = replica.class_weights,
                        .ids = replica.block.ids().data()});
    Prefetcher prefetcher(data, sampler_, first, end, kTrainingFences);
    DeviceBatch batch;
    const NextBatch next = [&]() -> const DeviceBatch& {
      batch = prefetcher.next();
      if (change) change(batch);
      return batch;
    };
    const auto drain = [&] {
      for (const StepResult& result : step.drain()) see(result);
    };
    for (int64_t k = first; k < end; ++k) {
      if (const auto result = step.run(next, config_.lr, replica.average ? kAverageRate : 0)) see(*result);
      if (alone) drain();
    }
    drain();
  }
  ReplicaConfig replica_config() const {
    ReplicaConfig replica_config = config_.replica;
    replica_config.batch_sizes = sizes();
    return replica_config;
  }
  std::vector<int64_t> sizes() const {
    const std::vector<int64_t> local = sampler_.local_batch_sizes();
    return local.empty() ? std::vector<int64_t>{1} : local;
  }

  FixtureConfig config_;
  const Dataset& data_;
  DistributedSampler sampler_;

 public:
  Replica replica;
};

// An evaluation that nothing ends early. Collective.
inline Evaluation evaluate_all(Evaluator& evaluator) {
  return *evaluator.run([] { return true; });
}

// In flat order: plan.gradients values. Waits for the device.
inline std::vector<float> download_gradients(const Replica& replica) {
  std::vector<float> values(replica.plan.gradients);
  replica.device.download(values.data(), replica.gradients(), bytes_of_floats(std::ssize(values)));
  replica.device.synchronize();
  return values;
}

// Six steps: the initial weights, the gradients and running statistics of the first step, and all losses.
struct SixSteps {
  std::vector<float> weights, gradients, stats;
  std::vector<double> losses;
};

inline SixSteps six_steps(Fixture& fixture, int64_t first) {
  SixSteps steps;
  steps.weights = fixture.replica.download_weights();
  steps.losses = fixture.losses(first, first + 1);
  steps.gradients = download_gradients(fixture.replica);
  steps.stats = fixture.replica.download_stats(fixture.replica.running_stats());
  const auto next = fixture.losses(first + 1, first + 6);
  steps.losses.insert(steps.losses.end(), next.begin(), next.end());
  return steps;
}

// The weights without gaps. With partitioned state the flat layout has other gaps.
inline std::vector<float> dense(const Replica& replica, const std::vector<float>& flat) {
  std::vector<float> dense;
  for (const Parameter& p : replica.parameters)
    dense.insert(dense.end(), flat.begin() + p.offset, flat.begin() + p.offset + p.count);
  return dense;
}

inline std::vector<float> dense_weights(const Replica& replica) { return dense(replica, replica.download_weights()); }

}  // namespace ddp::testing
