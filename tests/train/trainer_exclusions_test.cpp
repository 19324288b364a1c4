// The training loop on pictures that break while it runs: whether they are excluded or end the run.
#include "core/error.h"
#include "tests/train/trainer.h"

#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

namespace ddp::testing {
namespace {

// Samples of another data set; some of them cannot be read from an epoch on.
class Breaking final : public Dataset {
 public:
  Breaking(const Dataset& whole, std::vector<int64_t> broken, int64_t epoch)
      : whole_(whole), broken_(std::move(broken)), epoch_(epoch) {}
  int64_t size() const override { return whole_.size(); }
  ImageShape image_shape() const override { return whole_.image_shape(); }
  int classes() const override { return whole_.classes(); }
  int32_t label(int64_t index) const override { return whole_.label(index); }
  bool in_memory() const override { return false; }
  void read(const SampleKey& key, std::span<uint8_t> pixels) const override {
    if (key.epoch >= epoch_ && std::ranges::count(broken_, key.index) > 0) fail(Exit::data, "{}.jpg broke", key.index);
    whole_.read(key, pixels);
  }

 private:
  const Dataset& whole_;
  const std::vector<int64_t> broken_;
  const int64_t epoch_;
};

class Exclusion : public Training {
 protected:
  // From `epoch` on, from 0, the pictures in `broken` cannot be read.
  void break_pictures(std::vector<int64_t> broken, int64_t epoch) {
    data.train = std::make_unique<Breaking>(whole, std::move(broken), epoch);
    PictureListBuilder list({"a"});
    for (int64_t i = 0; i < whole.size(); ++i) list.add(fmt::format("{}.jpg", i), 0, 100 + i, 0);
    pictures = std::move(list).finish();
  }
  // Both ranks die when they take this batch.
  static Adapt killed_at(int64_t batch) {
    return [batch](TrainConfig& mine, Replica&) {
      mine.batch_source = [batch](NextBatch next) -> NextBatch {
        return [batch, next, taken = int64_t{0}]() mutable -> const DeviceBatch& {
          if (++taken == batch) throw std::runtime_error("killed");
          return next();
        };
      };
    };
  }

  MemoryDataset whole = small_data(kSamples);
};

// In each epoch from the second on, two batches have a sample less. A kill before, in and after the steps that
// find the pictures loses nothing: the resumed run has the weights of the run that was not interrupted.
TEST_F(Exclusion, AfterAKillEndsWithTheSameWeights) {
  replica_config.excludes = true;
  break_pictures({3, 11}, 1);
  TrainConfig config = steps(15);
  config.save_every.steps = 2;
  run(config);
  const std::vector<float> undisturbed = weights;
  int64_t seen = 0;
  for (const StepResult& step : events.steps) {
    EXPECT_EQ(step.samples + step.excluded, step.step % 5 == 0 ? 2 : 4);
    EXPECT_TRUE(step.step > 5 || step.excluded == 0);
    seen += step.samples;
  }
  EXPECT_EQ(seen, 18 + 16 + 16);
  EXPECT_EQ(reports[1]->state.samples, seen);
  EXPECT_NE(events.line.find(" epoch:2=16-2 speed:2"), std::string::npos) << events.line;
  EXPECT_NE(events.line.find(" epoch:3=16-2 speed:3"), std::string::npos) << events.line;
  const auto state = reports[0]->state.pictures;
  ASSERT_TRUE(state);
  EXPECT_EQ(state->training.broken, reports[1]->state.pictures->training.broken);
  ASSERT_EQ(state->training.broken.size(), 2u);
  for (const BrokenPicture& one : state->training.broken) {
    EXPECT_EQ(one.bytes, 100 + one.picture);
    EXPECT_EQ(one.reason, fmt::format("{}.jpg broke", one.picture));
    EXPECT_EQ(events.steps[one.step - 1].excluded > 0, true);
    const std::string name = fmt::format("training:{}@{}/", one.picture, one.step);
    EXPECT_NE(events.line.find(name), std::string::npos) << events.line;
    EXPECT_EQ(events.line.find(name), events.line.rfind(name)) << events.line;
  }

  for (int64_t kill = 5; kill <= 12; ++kill) {
    SCOPED_TRACE(kill);
    std::filesystem::remove_all(folder);
    EXPECT_THROW(run(config, killed_at(kill)), std::runtime_error);
    const auto saved = checkpoints();
    run(config, {}, saved.empty() ? std::filesystem::path() : list_checkpoints(folder).front());
    EXPECT_EQ(weights, undisturbed);
    EXPECT_EQ(reports[0]->state.pictures->training.broken, state->training.broken);
  }
}

// A picture that a resumed run could read stays excluded.
TEST_F(Exclusion, OutlivesAMendedPicture) {
  replica_config.excludes = true;
  break_pictures({3}, 1);
  TrainConfig config = steps(15);
  config.save_every.steps = 10;
  run(config);
  const std::vector<float> undisturbed = weights;
  data.train = std::make_unique<Breaking>(whole, std::vector<int64_t>{}, 0);
  run(config, {}, folder / "step-00000010");
  EXPECT_EQ(weights, undisturbed);
  EXPECT_EQ(events.line, "11 12 13 14 15 epoch:3=17-1 speed:3");
}

// The samples of the only batch that are left train as a batch of their own, clipped or not. On two ranks one of them
// has no sample left.
TEST_F(Exclusion, DividesByTheSamplesWithWeight) {
  for (const double limit : {0.0, 0.05}) {
    replica_config.max_grad_norm = limit;
    whole = small_data(2);
    data.train = std::make_unique<MemoryDataset>(small_data(2));
    batch_size = 2;
    replica_config.excludes = false;
    pictures.reset();
    TrainConfig config = steps(6);
    config.epochs = 6;
    run(config);
    const std::vector<float> expected = weights;

    whole = small_data(4);
    batch_size = 4;
    replica_config.excludes = true;
    break_pictures({2, 3}, 0);
    run(config);
    double distance = 0, norm = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      distance += std::pow(weights[i] - expected[i], 2);
      norm += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(distance / norm), 1e-5) << limit;
  }
}

TEST_F(Exclusion, OfAllSamplesSkipsTheStep) {
  whole = small_data(5);
  replica_config.excludes = true;
  const int64_t last = DistributedSampler(5, kBatch, Order::shuffled, 0, 0, {1.0}).sample(0, 4);
  break_pictures({last}, 0);
  TrainConfig config = steps(2);
  config.epochs = 1;
  run(config);
  ASSERT_EQ(events.steps.size(), 2u);
  EXPECT_EQ(events.steps[0].skipped, "");
  EXPECT_EQ(events.steps[1].skipped, "no picture of step 2 can be read");
  EXPECT_EQ(events.steps[1].loss, 0);
  EXPECT_EQ(reports[0]->updates, 1);
  config.max_steps = 1;
  const std::vector<float> after_two = weights;
  run(config);
  EXPECT_EQ(weights, after_two);
}

// More than ten: the data are gone.
TEST_F(Exclusion, OfManyPicturesEndsTheRun) {
  replica_config.excludes = true;
  break_pictures({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1);
  try {
    run(steps(15));
    ADD_FAILURE();
  } catch (const CollectiveError& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_NE(std::string(e.what()).find(" of 18 training pictures cannot be read any more, such as: "),
              std::string::npos)
        << e.what();
  }
}

TEST_F(Exclusion, OfAllValidationPicturesEndsTheRun) {
  replica_config.excludes = true;
  break_pictures({}, 0);
  std::vector<int64_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  data.test = std::make_unique<Breaking>(whole, all, 0);
  std::array<std::optional<Exclusions>, kRanks> of_test;
  TrainConfig config = steps(5);
  config.eval_every = 1;
  try {
    run(config, [&](TrainConfig& mine, Replica& replica) {
      mine.test_exclusions = &of_test[replica.communicator.rank()].emplace(*pictures);
    });
    ADD_FAILURE();
  } catch (const CollectiveError& e) {
    EXPECT_EQ(e.code(), Exit::data);
    EXPECT_TRUE(std::string(e.what()).starts_with("no validation picture can be read, such as: 0.jpg broke\nstep 5 "))
        << e.what();
  }
}

// Without --on-error skip the run is saved before the step that lacks a picture, wherever it stands in the epoch.
TEST_F(Exclusion, UnlessAskedForSavesAndEnds) {
  TrainConfig config = steps(15);
  run(config);
  const std::vector<float> undisturbed = weights;
  for (int64_t picture = 0; picture < kSamples; picture += 3) {
    SCOPED_TRACE(picture);
    std::filesystem::remove_all(folder);
    break_pictures({picture}, 1);
    std::string message;
    try {
      run(config);
    } catch (const CollectiveError& e) {
      EXPECT_EQ(e.code(), Exit::data);
      message = e.what();
    }
    const auto saved = checkpoints();
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(message,
              fmt::format("{}.jpg broke\nstep {} is saved: mend the data and resume the run, or resume it with "
                          "--on-error skip",
                          picture, saved[0]));
    const RunState state = read_run_state(list_checkpoints(folder).front());
    ASSERT_EQ(state.pictures->training.broken.size(), 1u);
    EXPECT_EQ(state.pictures->training.broken[0].step, saved[0] + 1);
    EXPECT_EQ(std::ranges::count(events.line, ' ') + 1 - (events.line.find("gradients") != std::string::npos),
              saved[0] + 1)  // and speed:1
        << events.line;
    data.train = std::make_unique<MemoryDataset>(small_data(kSamples));
    pictures.reset();
    run(config, {}, list_checkpoints(folder).front());
    EXPECT_EQ(weights, undisturbed);
  }
}

}  // namespace
}  // namespace ddp::testing
