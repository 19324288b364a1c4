// When the training loop saves, and what it does when a save fails or is slow.
#include "tests/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ddp::testing {
namespace {

using TrainerSaves = Training;
using Steps = std::vector<int64_t>;

// A request by time travels in the ticket, which is read two steps later, or where an epoch ends.
TEST_F(TrainerSaves, AreAtTheStepsAndTimesOfTheOption) {
  struct Saves {
    SaveEvery every;
    int64_t steps;
    Steps expected;
  };
  for (const Saves& c :
       {Saves{{.steps = 4}, 13, {4, 8, 12, 13}}, Saves{{.steps = 4}, 12, {4, 8, 12}},
        Saves{{.epochs = 2}, 15, {10, 15}}, Saves{{.epochs = 1}, 12, {5, 10, 12}},
        Saves{{.seconds = 1e-9}, 12, {3, 5, 8, 10, 12}}, Saves{{.seconds = 1e9}, 12, {12}}, Saves{{}, 12, {}}}) {
    SCOPED_TRACE(fmt::format("{} steps, {} epochs, {} s", c.every.steps, c.every.epochs, c.every.seconds));
    TrainConfig config = steps(c.steps);
    config.save_every = c.every;
    run(config, before_each_batch([&](int64_t) { await_writer(); }));
    EXPECT_EQ(events.saves, c.expected);
    EXPECT_EQ(checkpoints(), c.expected);
    EXPECT_EQ(reports[0]->checkpoint_step, c.expected.empty() ? -1 : c.expected.back());
    std::filesystem::remove_all(folder);
  }
}

// In each epoch the network predicts one class, of which the test data have 11, 12, 9 or 8 samples.
TEST_F(TrainerSaves, KeepTheBestIfAsked) {
  data.test = std::make_unique<MemoryDataset>(small_data(40));
  const std::vector<int> predicted{3, 0, 2, 0, 1, 3};
  const Adapt predict = [&](TrainConfig& mine, Replica& replica) {
    const auto bias = std::ranges::find_if(
        replica.parameters, [](const Parameter& p) { return p.out == 4 && p.role == Parameter::Role::bias; });
    float* const biases = replica.weights() + bias->offset;
    mine.batch_source = [&, biases](NextBatch next) -> NextBatch {
      return [&, biases, next, calls = 0]() mutable -> const DeviceBatch& {
        const int64_t epoch = calls++ / kStepsPerEpoch;
        biases[predicted[epoch]] = 1000.0f * static_cast<float>(epoch + 1);
        replica.model.bind();
        return next();
      };
    };
  };
  TrainConfig config = steps(30);
  config.eval_every = 1;
  config.keep_best = true;
  config.schedule.lr = 0;
  run(config, predict);
  EXPECT_EQ(events.accuracies, (std::vector<double>{8 / 40.0, 11 / 40.0, 9 / 40.0, 11 / 40.0, 12 / 40.0, 8 / 40.0}));
  EXPECT_EQ(events.saves, (Steps{5, 10, 25}));
  const RunState best = read_run_state(folder / "best");
  EXPECT_EQ(best.step, 25);
  EXPECT_EQ(best.best_accuracy, 12 / 40.0);
  EXPECT_EQ(best.best_epoch, 5);
  EXPECT_EQ(reports[0]->state.best_accuracy, 12 / 40.0);
  EXPECT_EQ(reports[0]->state.best_epoch, 5);
  EXPECT_EQ(reports[0]->state.accuracy, 8 / 40.0);

  // A resumed run in its own folder knows the best accuracy so far; in a new folder it does not.
  for (const bool same_folder : {true, false}) {
    const Adapt resume = [&](TrainConfig& mine, Replica&) {
      mine.start.best_accuracy = 1;
      mine.start_is_saved = same_folder;
    };
    run(config, resume, folder / "best");
    EXPECT_EQ(events.saves, same_folder ? Steps{} : Steps{30});
    EXPECT_EQ(reports[0]->state.best_epoch, same_folder ? 5 : 6);
  }
}

// A checkpoint has the statistics of the evaluation at its step, else the running averages; a resumed run has both.
TEST_F(TrainerSaves, HoldTheStatisticsOfTheirEvaluation) {
  network = norm_network();
  recompute_bn = true;
  TrainConfig config = steps(12);
  config.eval_every = 1;
  config.save_every.steps = 1;
  run(config);
  const std::vector<float> end = weights, averages = running_stats;
  const double loss = reports[0]->evaluation->loss;
  const auto read = [&](int64_t step) {
    const auto parameters = parameters_of(network);
    const auto norms = batch_norm_states_of(network);
    return read_checkpoint(folder / fmt::format("step-{:08}", step), {parameters, norms},
                           std::vector<std::string>{"momentum_buffer"});
  };
  for (int64_t step = 1; step <= 12; ++step) {
    const Snapshot saved = read(step);
    const bool evaluated = step % kStepsPerEpoch == 0 || step == 12;
    EXPECT_EQ(saved.run.bn_stats_samples, evaluated ? kSamples : 0) << step;
    EXPECT_EQ(saved.running_stats.empty(), !evaluated) << step;
    if (evaluated) {
      EXPECT_NE(saved.running_stats, saved.model.statistics) << step;
    }
  }
  const Snapshot last = read(12);
  EXPECT_EQ(last.running_stats, averages);
  run_world(1, [&](Communicator& communicator, Device& device, Ops& ops) {
    const DistributedSampler sampler(data.test->size(), 5, Order::sequential, 0, 0, {1.0});
    const std::vector<int64_t> sizes = sampler.local_batch_sizes();
    Replica replica(network, {.batch_sizes = sizes}, device, ops, communicator);
    replica.load(last.model.weights);
    replica.load_running_stats(last.model.statistics);
    DeviceDataset on_device(device, *data.test, sampler.largest_shard(), {});
    Evaluator evaluator(replica, on_device, sampler);
    const Evaluation evaluation = evaluate_all(evaluator);
    EXPECT_EQ(evaluation.accuracy(), last.run.accuracy);
    EXPECT_NEAR(evaluation.loss, loss, 1e-6 * loss);
  });

  for (const int64_t from : {5, 7}) {
    run(config, {}, folder / fmt::format("step-{:08}", from));
    EXPECT_EQ(weights, end) << from;
    EXPECT_EQ(running_stats, averages) << from;
  }
}

// A stop in an evaluation saves without its statistics. The resumed run evaluates, and saves that step once more.
TEST_F(TrainerSaves, AreRepeatedWithTheEvaluationThatWasMissing) {
  network = norm_network();
  recompute_bn = true;
  data.test = std::make_unique<MemoryDataset>(small_data(40));
  TrainConfig config = steps(7);
  config.eval_every = 1;
  config.save_every.steps = 100;
  run(config, [](TrainConfig& mine, Replica& replica) {
    if (replica.communicator.rank() == 1)
      mine.stop_requested = [asked = 0]() mutable { return ++asked > 1 + kStepsPerEpoch; };
  });
  const auto saved = reports[0]->checkpoint;
  ASSERT_TRUE(read_run_state(saved).evaluation_due);
  for (const Steps& expected : {Steps{5, 7}, Steps{7}}) {
    run(config, {}, saved);
    EXPECT_EQ(events.line.starts_with("eval:1 6 7 "), expected.size() == 2) << events.line;
    EXPECT_EQ(events.saves, expected);
    EXPECT_FALSE(read_run_state(saved).evaluation_due);
    EXPECT_EQ(read_run_state(saved).bn_stats_samples, kSamples);
  }
}

// With a rate of 0 only the first evaluation is the best.
TEST_F(TrainerSaves, FailedSaveOfTheBestIsMadeUpFor) {
  about_to_write = [failed = false](const std::filesystem::path&) mutable {
    if (!std::exchange(failed, true)) throw std::runtime_error("planted");
  };
  TrainConfig config = steps(10);
  config.eval_every = 1;
  config.keep_best = true;
  config.save_every.steps = 7;
  config.schedule.lr = 0;
  run(config);
  EXPECT_EQ(events.failures, Steps{5});
  EXPECT_EQ(events.saves, (Steps{7, 10}));
  EXPECT_EQ(read_run_state(folder / "best").step, 7);
}

TEST_F(TrainerSaves, FailedSaveAtTheEndIsRepeatedOnce) {
  TrainConfig config = steps(6);
  config.save_every.steps = 4;
  for (const int failures : {1, 2}) {
    about_to_write = [failures, files = 0](const std::filesystem::path& file) mutable {
      if (file.string().find("00000006") == std::string::npos) return;
      if (++files <= failures) throw std::runtime_error("planted");
    };
    run(config);
    EXPECT_EQ(events.failures, Steps(std::min(failures, 2), 6));
    EXPECT_EQ(reports[0]->checkpoint_step, failures == 1 ? 6 : 4);
    EXPECT_EQ(checkpoints(), failures == 1 ? (Steps{4, 6}) : Steps{4});
    std::filesystem::remove_all(folder);
  }
}

TEST_F(TrainerSaves, SlowSavesFollowOneAnother) {
  std::atomic<int> writing = 0, most = 0;
  about_to_write = [&](const std::filesystem::path&) {
    most = std::max(most.load(), ++writing);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    --writing;
  };
  TrainConfig config = steps(6);
  config.save_every.steps = 1;
  run(config);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(events.saves, (Steps{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(checkpoints(), events.saves);
}

// The save at step 5 is in progress until batch `until` is taken, at least. Epochs end at steps 5, 10 and 15. A request
// in the ticket of step 11 is read after step 13.
TEST_F(TrainerSaves, OfTheBestAreThoseOfTheEpochToo) {
  data.test = std::make_unique<MemoryDataset>(small_data(40));
  std::atomic<int64_t> taken = 0;
  about_to_write = [&](const std::filesystem::path&) {
    for (const Stopwatch watch; taken < 6 && watch.seconds() < 300;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  TrainConfig config = steps(9);
  config.eval_every = 1;
  config.keep_best = true;
  config.save_every.epochs = 1;
  run(config, before_each_batch([&](int64_t batch) {
        taken = batch;
        if (batch >= 6) await_writer();
      }));
  EXPECT_EQ(events.saves, (Steps{5, 9}));
}

TEST_F(TrainerSaves, AtAnEpochsEndArePutOffWhileASaveIsInProgress) {
  for (const int64_t until : {11, 15}) {
    SCOPED_TRACE(until);
    std::atomic<int64_t> taken = 0;
    std::atomic<bool> in_time = true;
    about_to_write = [&](const std::filesystem::path& file) {
      const Stopwatch watch;
      while (file.string().find("00000005") != std::string::npos && taken < until && in_time) {
        in_time = watch.seconds() < 300;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (until == 15) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // training ends first
    };
    TrainConfig config = steps(15);
    config.save_every.epochs = 1;
    run(config, before_each_batch([&](int64_t batch) {
          taken = batch;
          if (until == 11 && batch >= until) await_writer();
        }));
    EXPECT_TRUE(in_time) << "training waited for the writer";
    EXPECT_EQ(events.saves, until == 11 ? (Steps{5, 13, 15}) : (Steps{5, 15}));
    EXPECT_EQ(checkpoints(), events.saves);

    const auto uninterrupted = weights;
    const auto second = list_checkpoints(folder)[events.saves.size() - 2];  // the newest is the first
    about_to_write = {};
    run(config, {}, second);
    EXPECT_EQ(weights, uninterrupted);
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace ddp::testing
