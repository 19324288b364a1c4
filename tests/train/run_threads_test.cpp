// A run with all threads of the program: training, loader, checkpoint writer, watchdog and signals. Ranks are threads
// on the reference ops. The thread sanitizer judges it.
#include "checkpoint/folder.h"
#include "comm/local/heartbeat_table.h"
#include "health/signals.h"
#include "health/watchdog.h"
#include "tests/temp_folder.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/saving/snapshot.h"
#include "train/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kTotal = 30, kNever = kTotal + 1;

// Sends SIGUSR1 to this process after a step.
class Stopper final : public RunObserver {
 public:
  Stopper(int64_t after, const Signals& signals, const Watchdog& watchdog)
      : after_(after), signals_(signals), watchdog_(watchdog) {}

  void step(const StepResult& result) override {
    EXPECT_EQ(watchdog_.ranks().size(), 2u);
    if (result.step != after_) return;
    ::kill(::getpid(), SIGUSR1);
    while (!signals_.stop_requested()) std::this_thread::yield();
  }
  void evaluation(int64_t, int64_t, const Evaluation&, double) override {}
  void speed(int64_t, int64_t, const StepSpeed&) override {}
  void saved(const SaveOutcome& outcome) override { EXPECT_EQ(outcome.error, ""); }

 private:
  const int64_t after_;
  const Signals& signals_;
  const Watchdog& watchdog_;
};

struct Ended {
  TrainReport report;
  std::vector<float> weights;
};

// Two ranks train from the newest checkpoint of the run, if it has one. A signal stops them after step `stop`.
Ended run(const std::filesystem::path& run_folder, int64_t stop) {
  const Signals signals;
  const Datasets data{.train = std::make_unique<MemoryDataset>(small_data(150)), .test = nullptr};
  const auto heartbeats = make_local_heartbeat_tables(2);
  std::optional<Ended> ended;
  run_world(2, [&](Communicator& communicator, Device& device, Ops& ops) {
    const int rank = communicator.rank();
    const FixtureConfig config{.batch_size = 16,
                               .replica = {.optimizer = {.momentum = 0.9f}, .sync_bn = true, .seed = 5},
                               .step = {.micro_batches = 3}};
    Fixture fixture(config, norm_network(), *data.train, device, ops, communicator);
    Replica& replica = fixture.replica;
    const Tensors tensors{.parameters = replica.parameters, .batch_norms = replica.batch_norms};
    TrainConfig train_config{.max_steps = kTotal,
                             .eval_every = 0,
                             .schedule = {.lr = 0.01},
                             .step = config.step,
                             .save_every = {.steps = 3},
                             .data_placement = {.workers = 2},
                             .stop_requested = [&] { return signals.stop_requested(); }};
    std::vector<std::string> skipped;
    if (const auto found = find_checkpoint(run_folder, skipped)) {
      const Snapshot snapshot = read_checkpoint(found->path, tensors, optimizer_state_names(replica));
      restore(replica, snapshot);
      train_config.start = snapshot.run;
      train_config.updates = snapshot.model.updates;
    }

    PhaseTracker phases(*heartbeats[rank]);
    Watchdog watchdog({.step = 60s}, phases, [](const std::string& text) { ADD_FAILURE() << text; });
    const int buckets = static_cast<int>(replica.plan.buckets.size());
    const auto monitoring = watchdog.monitor(replica.communicator, replica.bn_communicator.get(), buckets,
                                             replica.reducer.collectives() - buckets);
    Stopper stopper(rank == 0 ? stop : kNever, signals, watchdog);
    std::optional<CheckpointWriter> writer;
    if (rank == 0) writer.emplace(CheckpointWriterConfig{.folder = checkpoints_of(run_folder)}, tensors);
    const TrainReport report =
        ddp::train(train_config, replica, data, {fixture.sampler(), std::nullopt, std::nullopt},
                   {.reporter = stopper, .phases = phases, .writer = writer ? &*writer : nullptr});
    if (rank == 0) ended.emplace(Ended{report, replica.download_weights()});
  });
  return *ended;
}

TEST(RunThreads, AStoppedRunThatIsResumedEndsWithTheSameBytes) {
  const TempFolder whole, cut;
  const Ended stopped = run(cut.path(), 10);
  EXPECT_TRUE(stopped.report.stopped);
  EXPECT_GE(stopped.report.state.step, 11);
  EXPECT_LE(stopped.report.state.step, 14);
  EXPECT_EQ(stopped.report.checkpoint_step, stopped.report.state.step);

  const Ended resumed = run(cut.path(), kNever), undisturbed = run(whole.path(), kNever);
  EXPECT_FALSE(resumed.report.stopped);
  EXPECT_EQ(resumed.report.state.step, kTotal);
  EXPECT_EQ(resumed.report.state.samples, undisturbed.report.state.samples);
  EXPECT_EQ(resumed.report.samples, undisturbed.report.samples - stopped.report.samples);
  EXPECT_EQ(resumed.weights, undisturbed.weights);
}

}  // namespace
}  // namespace ddp::testing
