// A run that is killed and resumed, twice and inside an epoch, ends with the bytes of an undisturbed run.
#include "checkpoint/manifest.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <array>
#include <regex>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Two epochs of 11 steps; the last step of an epoch has 8 samples. The run is killed in an early step of each epoch.
constexpr int kSamples = 168, kBatch = 16, kStepsOfEpoch = 11, kSteps = 22, kKills[] = {8, 17};

// All values of the steps but their times.
std::vector<json> steps_in(const fs::path& run) {
  std::vector<json> steps = events(run, "step");
  for (json& step : steps)
    for (const char* time : {"data_ms", "compute_ms", "exposed_comm_ms", "begin_ns"}) step.erase(time);
  return steps;
}

// The best evaluation; of equal ones, the first.
json best_in(const fs::path& run) {
  json best{{"accuracy", -1.0}, {"step", 0}, {"epoch", 0}};
  for (const json& event : events(run, "eval"))
    if (event.at("accuracy") > best.at("accuracy")) best = event;
  return best;
}

class Resumed : public ::testing::Test {
 protected:
  Resumed() { few_images(folder_ / "images", kSamples, 100); }

  Outcome run(int ranks, const char* name, const std::string& options) const {
    return program(ranks, fmt::format("--data-path {} --batch-size {} --output-dir {} {}",
                                      (folder_ / "images").string(), kBatch, path(name).string(), options));
  }
  // It neither saves nor evaluates before its end. So equal bytes also prove that saves and evaluations do not change
  // the result.
  Outcome whole(int ranks, const std::string& options) const {
    return run(ranks, "whole",
               fmt::format("{} --max-steps {} --save-every never --eval-every 1000 --print-freq 0", options, kSteps));
  }
  // The parts of the run `cut`, each resumed from the one before. The first two are killed.
  Outcome part(size_t number, int ranks, const std::string& options) const {
    const bool killed = number < std::size(kKills);
    const std::string kill = killed ? fmt::format("--inject kind=kill,rank={},step={}",
                                                  number == 0 && ranks > 0 ? ranks - 1 : 0, kKills[number])
                                    : "";
    Outcome outcome = run(ranks, "cut", fmt::format("{} --max-steps {} --resume auto {}", options, kSteps, kill));
    EXPECT_TRUE(killed ? was_killed(outcome.code) : outcome.code == 0) << outcome.code << "\n" << outcome.output;
    EXPECT_EQ(fs::exists(path("cut") / "model.safetensors"), !killed);
    EXPECT_EQ(count(outcome.output, "resumed from " + path("cut").string()), number > 0) << outcome.output;
    return outcome;
  }
  fs::path path(const char* name) const { return folder_ / name; }

 private:
  const TempFolder folder_;
};

struct ResumeCase {
  const char* name;
  const char* options;
  int ranks = 2;
  const char* save_every = "3steps";
};

void PrintTo(const ResumeCase& c, std::ostream* out) { *out << c.name; }

class Resume : public Resumed, public ::testing::WithParamInterface<ResumeCase> {};

// A save ends before the next one begins. So a kill, which follows two saves, finds the first or both.
//
// The parts of the run differ from the undisturbed one in options that must not affect results.
TEST_P(Resume, AfterAKillEndsWithTheSameBytes) {
  const ResumeCase c = GetParam();
  const Outcome undisturbed = whole(c.ranks, c.options);
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;

  const std::string others = fmt::format(
      " --save-every {} --eval-every 1 --keep-best --keep-last 2 --check-every 4 --skip-bad-steps 2 "
      "--step-timeout 100 --print-freq 5 --tensorboard",
      c.save_every);
  const std::string steps = c.save_every;
  for (size_t number = 0; number < 3; ++number) {
    const Outcome outcome = part(number, c.ranks, c.options + others);
    if (HasFailure()) return;
    EXPECT_EQ(count(outcome.output, "not bit-identical"), 0) << outcome.output;
    const double from = number_after(outcome.output, "resumed from [^\n]* at step ");
    if (number == 1 && steps == "3steps") {
      EXPECT_TRUE(from == 3 || from == 6) << outcome.output;
    }
    if (number == 2 && steps == "3steps") {
      EXPECT_TRUE(from == 12 || from == 15) << outcome.output;
    }
    if (number == 0)  // of a step that no checkpoint has
      std::ofstream(path("cut") / "metrics.jsonl", std::ios::app) << "\n{\"event\": \"step\", \"step\": 21}\n";
  }
  EXPECT_TRUE(read_file(path("cut") / "model.safetensors") == read_file(path("whole") / "model.safetensors"));
  EXPECT_EQ(steps_in(path("cut")), steps_in(path("whole")));
  EXPECT_EQ(std::ssize(steps_in(path("cut"))), kSteps);
  const json best = best_in(path("cut")), summary = json::parse(read_file(path("cut") / "summary.json"));
  EXPECT_EQ(fs::read_symlink(path("cut") / "checkpoints" / "best"),
            fmt::format("step-{:08}", best.at("step").get<int64_t>()));
  EXPECT_EQ(summary.at("best_epoch"), best.at("epoch"));
  EXPECT_EQ(summary.at("best_accuracy"), best.at("accuracy"));
}

INSTANTIATE_TEST_SUITE_P(
    , Resume,
    ::testing::Values(
        ResumeCase{"LeNetCosineWarmUpClipped",
                   "--lr-scheduler cosine --epochs 2 --lr-warmup-epochs 1.3 --momentum 0.9 --nesterov --weight-decay "
                   "0.001 --clip-grad-norm 0.5 --threads 2"},
        ResumeCase{"KerasConvnetAccumulateSyncBn",
                   "--model keras-convnet --accumulate 3 --sync-bn --optimizer adam --lr 0.001"},
        ResumeCase{"KerasConvnetBf16",
                   "--model keras-convnet --precision bf16 --grad-dtype bf16 --lr 0.01 --momentum 0.9 --lr-scheduler "
                   "multistep --lr-milestones 0.5,1.3 --label-smoothing 0.1 --engine-seconds 0"},
        ResumeCase{
            "KerasConvnetFrozen",
            "--model keras-convnet --freeze 0,1,3.weight,14.bias --zero 1 --momentum 0.9 --lr 0.01 --accumulate 2"},
        ResumeCase{"KerasConvnetZero",
                   "--model keras-convnet --zero 1 --optimizer adamw --lr 0.001 --weight-decay 0.01 --bn-stats running",
                   3},
        ResumeCase{"LeNetLarsAugmentedSavedByTime",
                   "--optimizer lars --momentum 0.9 --weight-decay 0.001 --no-decay-bias-norm --rank-weights 3,1 "
                   "--auto-augment ta_wide --crop-padding 4 --padding-mode reflect --hflip 0.5 --lr-scheduler linear "
                   "--epochs 3",
                   2, "0.0001s"}),
    [](const auto& test) { return std::string(test.param.name); });

// Four steps an epoch. The evaluations after the second epoch and later ones halve the rate; the average has an update
// in the third step, in the sixth, and so on. The best is that of the average.
TEST_F(Resumed, WithAPlateauAndAnAverageEndsWithTheSameBytes) {
  const std::string options =
      "--model keras-convnet --train-samples 56 --eval-every 1 --keep-best --lr 0.005 --lr-scheduler plateau "
      "--lr-plateau-patience 0 --lr-plateau-threshold 0.9 --lr-gamma 0.5 --early-stop 20 --model-ema --model-ema-decay "
      "0.8 --model-ema-steps 3 --zero 1 ";
  const Outcome undisturbed = run(2, "whole", fmt::format("{} --max-steps {} --save-every never", options, kSteps));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  for (size_t number = 0; number < 3; ++number) {
    const Outcome outcome = part(number, 2, options + "--save-every 3steps");
    if (HasFailure()) return;
    EXPECT_EQ(count(outcome.output, "not bit-identical"), 0) << outcome.output;
  }
  for (const char* file : {"model.safetensors", "model_ema.safetensors"})
    EXPECT_TRUE(read_file(path("cut") / file) == read_file(path("whole") / file)) << file;
  EXPECT_FALSE(read_file(path("whole") / "model_ema.safetensors") == read_file(path("whole") / "model.safetensors"));
  EXPECT_EQ(steps_in(path("cut")), steps_in(path("whole")));
  const auto rates = values_of<double>(path("whole"), "step", "lr");
  EXPECT_LT(rates.back(), 0.1 * rates.front());
  EXPECT_EQ(values_of<double>(path("cut"), "eval", "ema_loss"), values_of<double>(path("whole"), "eval", "ema_loss"));
  const json summary = json::parse(read_file(path("cut") / "summary.json"));
  EXPECT_EQ(summary.at("best_accuracy"), std::ranges::max(values_of<double>(path("whole"), "eval", "ema_accuracy")));
}

// The ranks and ZeRO's parts change the order of sums. With sync batch norm that is all.
TEST_F(Resumed, OnOtherRanksOrWithoutZeroDiffersByRoundingOnly) {
  const std::string options = "--model keras-convnet --sync-bn --accumulate 2 --lr 0.01 --momentum 0.9 --zero ";
  const Outcome undisturbed = whole(2, options + "1");
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  struct Part {
    int ranks;
    const char *zero, *says;
  };
  const std::array parts{Part{2, "1", "a new run begins"},
                         Part{3, "0", "not bit-identical to a run that was not interrupted: --zero was 1, is 0; "},
                         Part{2, "1", "not bit-identical to a run that was not interrupted: --zero was 0, is 1; "}};
  for (size_t number = 0; number < parts.size(); ++number) {
    const auto& [ranks, zero, says] = parts[number];
    const Outcome outcome = part(number, ranks, options + zero + " --save-every 3steps --eval-every 1000");
    EXPECT_EQ(count(outcome.output, says), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "world size was 2, is 3"), number == 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "world size was 3, is 2"), number == 2) << outcome.output;
    if (HasFailure()) return;
  }
  expect_close_tensors(path("cut") / "model.safetensors", path("whole") / "model.safetensors");
}

std::string error_in(const std::string& output) {
  std::smatch found;
  return std::regex_search(output, found, std::regex("error: [^\n]*")) ? found.str() : "";
}

// From the second step on, all steps are bad at this rate. The 18th of them ends the run, which is resumed twice.
TEST_F(Resumed, CountsBadStepsInARow) {
  const std::string options = "--model mlp --lr 1e30 --skip-bad-steps 17";
  const Outcome undisturbed = whole(0, options);
  EXPECT_EQ(undisturbed.code, 6) << undisturbed.output;
  EXPECT_EQ(count(error_in(undisturbed.output), "step 19"), 1) << undisturbed.output;
  const std::string saves = options + " --save-every 3steps --eval-every 0";
  for (const size_t number : {0, 1}) part(number, 0, saves);
  const Outcome last = run(0, "cut", fmt::format("{} --max-steps {} --resume auto", saves, kSteps));
  EXPECT_EQ(last.code, 6) << last.output;
  EXPECT_EQ(error_in(last.output), error_in(undisturbed.output));
}

// A run is resumed after 9.9e9 steps of 11: its state is edited. All counters are beyond the range of 32 bits.
TEST_F(Resumed, CountsBeyondTheRangeOf32Bits) {
  const std::string options =
      "--epochs 1000000000 --lr-scheduler step --lr-step-size 400000000 --lr 0.25 --lr-gamma 0.5 --save-every 1steps "
      "--eval-every 0 --tensorboard --max-steps ";
  const Outcome begun = run(0, "cut", options + "4");
  ASSERT_EQ(begun.code, 0) << begun.output;

  constexpr int64_t kEpoch = 900'000'000, kDone = kEpoch * kStepsOfEpoch + 4, kSeen = kEpoch * kSamples + 4 * kBatch;
  const fs::path checkpoint = path("cut") / "checkpoints" / "latest";
  json state = json::parse(read_file(checkpoint / "state.json"));
  state["step"] = kDone;
  state["epoch"] = kEpoch;
  state["samples"] = kSeen;
  std::ofstream(checkpoint / "state.json") << state;
  fs::remove(checkpoint / "manifest.json");
  write_manifest(checkpoint, std::array<std::string, 3>{"model.safetensors", "optimizer.safetensors", "state.json"});

  const Outcome resumed = run(0, "cut", options + fmt::format("{} --resume auto", kDone + 2));
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, fmt::format(" at step {}\n", kDone)), 1) << resumed.output;
  const json step = steps_in(path("cut")).back();
  EXPECT_EQ(step.at("step"), kDone + 2);
  EXPECT_EQ(step.at("epoch"), kEpoch + 1);
  EXPECT_EQ(step.at("samples"), kBatch);
  EXPECT_EQ(step.at("lr"), 0.25 * 0.5 * 0.5);
  EXPECT_TRUE(std::isfinite(step.at("loss").get<double>()));
  const fs::path last = fs::canonical(checkpoint);
  EXPECT_EQ(last.filename(), fmt::format("step-{}", kDone + 2));
  const json after = json::parse(read_file(last / "state.json"));
  EXPECT_EQ(after.at("step"), kDone + 2);
  EXPECT_EQ(after.at("epoch"), kEpoch);
  EXPECT_EQ(after.at("cursor"), 6 * kBatch);
  EXPECT_EQ(after.at("samples"), kSeen + 2 * kBatch);
}

}  // namespace
}  // namespace ddp::testing
