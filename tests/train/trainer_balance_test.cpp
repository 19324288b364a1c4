// Shards that follow the measured speeds of the ranks: which samples a rank gets, and that nothing else changes.
#include "tests/train/trainer.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddp::testing {
namespace {

// The speeds of all ranks after each epoch, from 1; equal ones after other epochs.
using SpeedsOfEpochs = std::map<int64_t, std::vector<double>>;

class TrainerBalance : public Training {
 protected:
  TrainerBalance() { data.train = std::make_unique<MemoryDataset>(small_data(37)); }

  // Notes the samples of each rank in each epoch.
  Adapt with(const SpeedsOfEpochs& speeds) {
    samples.clear();
    return [this, speeds](TrainConfig& mine, Replica& replica) {
      mine.replace_speeds = [speeds](int64_t epoch, std::vector<double>& measured) {
        for (const double one : measured) EXPECT_GE(one, 0);
        const auto found = speeds.find(epoch);
        measured = found == speeds.end() ? std::vector<double>(measured.size(), 100.0) : found->second;
      };
      mine.batch_source = [this, rank = replica.communicator.rank()](NextBatch next) -> NextBatch {
        return [this, rank, next]() -> const DeviceBatch& {
          const DeviceBatch& batch = next();
          const std::lock_guard lock(mutex_);
          auto& ids = samples[batch.plan.epoch + 1][rank];
          ids.insert(ids.end(), batch.keys, batch.keys + batch.size);
          return batch;
        };
      };
    };
  }

  // Each sample was used once in each epoch.
  void expect_whole_epochs(size_t epochs) const {
    EXPECT_EQ(samples.size(), epochs);
    for (const auto& [epoch, of_ranks] : samples) {
      std::multiset<int32_t> all;
      for (const auto& [rank, ids] : of_ranks) all.insert(ids.begin(), ids.end());
      const auto whole = static_cast<size_t>(data.train->size());
      EXPECT_EQ(all.size(), whole) << epoch;
      EXPECT_EQ(std::set<int32_t>(all.begin(), all.end()).size(), whole) << epoch;
    }
  }
  size_t count(int64_t epoch, int rank) { return samples[epoch][rank].size(); }

  std::map<int64_t, std::map<int, std::vector<int32_t>>> samples;  // by epoch and rank

 private:
  std::mutex mutex_;
};

// Rank 1 is slow in the first and second epoch. The steps of these runs differ by rounding only.
TEST_F(TrainerBalance, MovesSamplesAndChangesNothingElse) {
  for (const int world : {2, 3, 5}) {
    SCOPED_TRACE(world);
    ranks = world;
    batch_size = 4 * world;
    data.train = std::make_unique<MemoryDataset>(small_data(73));
    TrainConfig config = steps(1);
    config.epochs = 5;
    config.max_steps = 0;
    config.eval_every = 1;
    std::vector<double> slow(world, 100.0);
    slow[1] = 50;
    balanced = false;
    run(config, with({}));
    const EventList equal = events;
    const std::vector<float> equal_weights = weights;
    const size_t equal_count = count(3, 1);

    balanced = true;
    run(config, with({{1, slow}, {2, slow}}));
    expect_whole_epochs(5);
    EXPECT_EQ(count(1, 1), equal_count);
    EXPECT_LT(count(2, 1), equal_count - 3);
    EXPECT_EQ(count(3, 1), count(2, 1));
    EXPECT_EQ(count(5, 1), equal_count);
    const std::string first = world == 2 ? "shares:2=6,2 " : world == 3 ? "shares:2=5,2,5 " : "shares:2=5,2,5,4,4 ";
    EXPECT_NE(events.line.find(first), std::string::npos) << events.line;
    ASSERT_EQ(events.steps.size(), equal.steps.size());
    for (size_t i = 0; i < equal.steps.size(); ++i) {
      EXPECT_EQ(events.steps[i].samples, equal.steps[i].samples);
      EXPECT_NEAR(events.steps[i].loss, equal.steps[i].loss, 1e-5) << i;
      EXPECT_TRUE(events.steps[i].epoch > 1 || events.steps[i].loss == equal.steps[i].loss) << i;
    }
    EXPECT_EQ(events.accuracies, equal.accuracies);
    EXPECT_LE(distance(weights, equal_weights), 1e-5);
    for (const auto& report : reports) {
      EXPECT_TRUE(report->state.balance->shares.empty());
      EXPECT_EQ(report->rank_weights, std::vector<double>(world, 1.0));
    }
    ASSERT_TRUE(reports[0]->classes);
    EXPECT_EQ(reports[0]->classes->correct(), reports[0]->evaluation->correct);
  }
}

// Ranks without samples have no speed. Then nothing moves, whatever the others are.
TEST_F(TrainerBalance, EmptyShardsStay) {
  ranks = 5;
  batch_size = 3;
  TrainConfig config = steps(26);
  config.epochs = 2;
  balanced = true;
  const Adapt notes = with({});
  run(config, [&](TrainConfig& mine, Replica& replica) {
    notes(mine, replica);
    mine.replace_speeds = [](int64_t, std::vector<double>& measured) {
      EXPECT_EQ(std::ranges::count(measured, 0.0), 2);
      for (double& speed : measured) speed *= &speed == &measured[1] ? 0.1 : 1;
    };
  });
  expect_whole_epochs(2);
  EXPECT_EQ(events.line.find("shares"), std::string::npos) << events.line;
  EXPECT_TRUE(reports[0]->state.balance->speeds.empty());
}

// With an average and precise batch norm. The run changes its shards after the first epoch, and is resumed from a
// checkpoint at the end of that epoch and from one inside the next.
TEST_F(TrainerBalance, ResumedRunHasTheShardsOfItsCheckpoint) {
  network = norm_network();
  recompute_bn = true;
  replica_config.averages = true;
  batch_size = 12;
  balanced = true;
  TrainConfig config = steps(9);
  config.epochs = 3;
  config.eval_every = 1;
  config.save_every.steps = 2;
  const SpeedsOfEpochs speeds{{1, {100, 40}}, {2, {100, 45}}};
  run(config, with(speeds));
  const std::vector<float> undisturbed = weights, average = average_weights;
  const EventList all = events;
  EXPECT_NE(events.line.find("shares:2=9,3 "), std::string::npos) << events.line;
  EXPECT_EQ(reports[0]->state.balance->shares, (std::vector<int64_t>{9, 3}));
  EXPECT_EQ(reports[0]->state.balance->speeds, (std::vector<double>{100, 45}));
  EXPECT_EQ(reports[1]->rank_weights, (std::vector<double>{9, 3}));
  EXPECT_EQ(reports[1]->compute_ms.size(), 2u);  // of five steps with these shards, four of them full
  for (const int64_t step : {4, 6}) {
    SCOPED_TRACE(step);
    std::filesystem::remove_all(folder / "other");
    const auto from = folder / fmt::format("step-{:08}", step);
    const RunState saved = read_run_state(from);
    ASSERT_TRUE(saved.balance);
    EXPECT_EQ(saved.balance->shares, (std::vector<int64_t>{9, 3}));
    run(config, with(speeds), from);
    EXPECT_EQ(weights, undisturbed);
    EXPECT_EQ(average_weights, average);
    EXPECT_EQ(events.accuracies, std::vector<double>(all.accuracies.end() - 2, all.accuracies.end()));
    EXPECT_EQ(events.steps.front().step, step + 1);
    EXPECT_EQ(events.line.find("shares"), std::string::npos) << events.line;
  }
}

// The evaluation of the second epoch ends the run. Its state has the new shares, but no epoch begins with them.
TEST_F(TrainerBalance, AnEarlyEndAnnouncesNoEpoch) {
  batch_size = 12;
  balanced = true;
  TrainConfig config = steps(20);
  config.epochs = 5;
  config.eval_every = 1;
  config.schedule.lr = 0;
  config.early_stop = 1;
  run(config, with({{2, {100, 40}}}));
  EXPECT_TRUE(events.line.ends_with("speed:2 eval:2 early_stop:2@1")) << events.line;
  EXPECT_EQ(reports[0]->state.balance->shares, (std::vector<int64_t>{9, 3}));
  EXPECT_EQ(reports[0]->rank_weights, (std::vector<double>{9, 3}));
}

// Not where a batch norm would normalise a single value, nor after the last epoch, nor after a NaN.
TEST_F(TrainerBalance, StaysWhereItMayNotMove) {
  batch_size = 12;
  balanced = true;
  TrainConfig config = steps(8);
  config.epochs = 2;
  const std::vector<double> slow{100, 40};
  std::vector<std::vector<double>> asked;
  const Adapt notes = with({{1, slow}, {2, slow}});
  run(config, [&](TrainConfig& mine, Replica& replica) {
    notes(mine, replica);
    const bool first = replica.communicator.rank() == 0;
    mine.may_have_weights = [&asked, first](const std::vector<double>& wanted) {
      if (first) asked.push_back(wanted);
      return false;
    };
  });
  EXPECT_EQ(asked, (std::vector<std::vector<double>>{{9, 3}}));
  EXPECT_EQ(events.line.find("shares"), std::string::npos) << events.line;
  run(config, with({{1, {100, std::numeric_limits<double>::quiet_NaN()}}}));
  EXPECT_EQ(events.line.find("shares"), std::string::npos) << events.line;
  EXPECT_TRUE(reports[0]->state.balance->speeds.empty());
}

}  // namespace
}  // namespace ddp::testing
