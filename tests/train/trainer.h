// Runs the training loop on ranks that are threads, two unless told otherwise, and keeps what it reports.
#pragma once

#include "checkpoint/folder.h"
#include "comm/local/heartbeat_table.h"
#include "tests/temp_folder.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/saving/snapshot.h"
#include "train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddp::testing {

// A line of events, such as "1 2 gradients speed:1 eval:1", where numbers are steps. Saves are listed apart, because
// the writer's thread decides when they are reported.
class EventList final : public RunObserver {
 public:
  void step(const StepResult& result) override {
    steps.push_back(result);
    add(fmt::format("{}", result.step));
  }
  void evaluation(int64_t epoch, int64_t, const Evaluation& evaluation, double) override {
    EXPECT_EQ(evaluation.samples, evaluation.expected_samples);
    accuracies.push_back(evaluation.accuracy());
    add(fmt::format("eval:{}", epoch));
  }
  void balanced(int64_t epoch, int64_t, const std::vector<int64_t>& shares, const std::vector<double>&) override {
    add(fmt::format("shares:{}={}", epoch, fmt::join(shares, ",")));
  }
  void early_stop(int64_t epoch, int64_t, const EarlyStopState& state) override {
    add(fmt::format("early_stop:{}@{}", epoch, state.best_epoch));
  }
  void speed(int64_t epoch, int64_t, const StepSpeed&) override { add(fmt::format("speed:{}", epoch)); }
  void gradients(const std::vector<std::string>&) override { add("gradients"); }
  void excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known, int64_t) override {
    for (const BrokenPicture& one : broken) add(fmt::format("{}:{}@{}/{}", part, one.picture, one.step, known));
  }
  void exclusions_of_epoch(int64_t epoch, int64_t, int64_t samples, int64_t excluded) override {
    add(fmt::format("epoch:{}={}-{}", epoch, samples, excluded));
  }
  void saved(const SaveOutcome& outcome) override {
    (outcome.error.empty() ? saves : failures).push_back(outcome.step);
  }

  std::string line;
  std::vector<StepResult> steps;
  std::vector<double> accuracies;
  std::vector<int64_t> saves, failures;  // their steps

 private:
  void add(const std::string& event) { line += (line.empty() ? "" : " ") + event; }
};

class Training : public ::testing::Test {
 protected:
  static constexpr int kRanks = 2;
  static constexpr int64_t kSamples = 18, kBatch = 4, kStepsPerEpoch = 5;  // the last batch has two samples

  // Changes the configuration of a rank. May keep the replica's address.
  using Adapt = std::function<void(TrainConfig&, Replica&)>;

  // Without evaluations and saves.
  static TrainConfig steps(int64_t count) {
    TrainConfig config;
    config.epochs = (count + kStepsPerEpoch - 1) / kStepsPerEpoch;
    config.max_steps = count;
    config.eval_every = 0;
    config.schedule.lr = 0.05;
    return config;
  }

  // Trains from the initial weights, or from `from`, which may be in the reports of the last run.
  void run(const TrainConfig& config, const Adapt& adapt = {}, std::filesystem::path from = {}) {
    events = {};
    reports = std::vector<std::optional<TrainReport>>(ranks);
    const auto tables = make_local_heartbeat_tables(ranks);
    const auto work = [&](Communicator& communicator, Device& device, Ops& ops) {
      const int rank = communicator.rank();
      const auto sampler = [&](const Dataset& of, Order order) {
        return DistributedSampler(of.size(), batch_size, order, 0, rank, std::vector<double>(ranks, 1.0));
      };
      Samplers samplers{
          .train = sampler(*data.train, Order::shuffled),
          .test = sampler(*data.test, Order::sequential),
          .statistics = recompute_bn ? std::optional(sampler(*data.train, Order::sequential)) : std::nullopt,
          .balanced = balanced};
      if (balanced && !from.empty()) {
        const std::vector<int64_t> shares = read_run_state(from).balance.value().shares;
        if (!shares.empty()) samplers.set_weights({shares.begin(), shares.end()});
      }
      ReplicaConfig of_replica = replica_config;
      of_replica.batch_sizes = samplers.batch_sizes();
      Replica replica(network, of_replica, device, ops, communicator);
      const Tensors tensors{.parameters = replica.parameters, .batch_norms = replica.batch_norms};
      std::vector<float> initial(replica.weights_count);
      initialize(initial, replica.parameters, {}, 0);
      replica.load(initial);
      TrainConfig mine = config;
      if (!from.empty()) {
        const Snapshot snapshot =
            read_checkpoint(from, tensors, optimizer_state_names(replica), replica.average != nullptr);
        restore(replica, snapshot);
        mine.start = snapshot.run;
        mine.start_is_saved = true;
        mine.checkpoint = from;
      }
      std::optional<Exclusions> exclusions;
      if (pictures) {
        const auto& known = mine.start.pictures;
        exclusions.emplace(*pictures, known ? known->training.broken : std::vector<BrokenPicture>());
        mine.train_exclusions = &*exclusions;
      }
      std::unique_ptr<Model> average_model;
      if (replica.average) {
        ModelConfig inference;
        inference.inference = true;
        average_model = std::make_unique<Model>(
            network, replica.parameters, replica.batch_norms, of_replica.batch_sizes, device, ops,
            ModelMemory{.weights = replica.average->weights(), .running_stats = replica.average->running_stats()},
            inference);
        mine.average_model = average_model.get();
      }
      mine.plan_models = [&](const Samplers& now) {
        for (Model* const model : {&replica.model, average_model.get()})
          if (model) model->plan(network, replica.parameters, replica.batch_norms, now.batch_sizes());
      };
      if (adapt) adapt(mine, replica);

      if (rank == 0)
        writer = std::make_unique<CheckpointWriter>(
            CheckpointWriterConfig{.folder = folder, .keep_last = 0, .about_to_write = about_to_write}, tensors);
      EventList others;
      PhaseTracker phases(*tables[rank]);
      reports[rank].emplace(train(
          mine, replica, data, samplers,
          {.reporter = rank == 0 ? events : others, .phases = phases, .writer = rank == 0 ? writer.get() : nullptr}));
      if (rank != 0) return;
      weights = replica.download_weights();
      running_stats = replica.download_stats(replica.running_stats());
      if (replica.average) {
        average_weights = replica.download(replica.average->weights(), replica.plan.gradients);
        average_stats = replica.download_stats(replica.average->running_stats());
      }
      writer.reset();
    };
    run_world(ranks, work, make_ops);
  }

  // Rank 0 calls `act` with the number of each batch, from 1, before it takes the batch.
  static Adapt before_each_batch(std::function<void(int64_t)> act) {
    return [act = std::move(act)](TrainConfig& mine, Replica& replica) {
      if (replica.communicator.rank() != 0) return;
      mine.batch_source = [&act](NextBatch next) -> NextBatch {
        return [&act, next, taken = int64_t{0}]() mutable -> const DeviceBatch& {
          act(++taken);
          return next();
        };
      };
    };
  }
  void await_writer() const {
    while (writer->busy()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::vector<int64_t> checkpoints() const {  // their steps, the oldest first
    std::vector<int64_t> found;
    for (const auto& path : list_checkpoints(folder)) found.insert(found.begin(), read_run_state(path).step);
    return found;
  }

  const TempFolder temp;
  const std::filesystem::path folder = temp / "checkpoints";
  Datasets data{.train = std::make_unique<MemoryDataset>(small_data(kSamples)),
                .test = std::make_unique<MemoryDataset>(small_data(10))};
  Network network = small_network();
  MakeOps make_ops = make_reference_ops;
  bool recompute_bn = false;                                         // before each evaluation
  std::function<void(const std::filesystem::path&)> about_to_write;  // see CheckpointWriterConfig
  ReplicaConfig replica_config{.optimizer = {.momentum = 0.9f}};
  int ranks = kRanks;
  int64_t batch_size = kBatch;
  bool balanced = false;                // the shards follow the speeds
  std::optional<PictureList> pictures;  // of the training data; none: its samples can always be read

  std::unique_ptr<CheckpointWriter> writer;  // of rank 0, during a run

  // Of the last run; events and weights are those of rank 0.
  EventList events;
  std::vector<std::optional<TrainReport>> reports;
  std::vector<float> weights, running_stats, average_weights, average_stats;
};

}  // namespace ddp::testing
