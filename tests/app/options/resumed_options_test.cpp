#include "app/options/resumed_options.h"

#include "app/options/resume.h"
#include "core/error.h"
#include "tests/app/options/option_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr int kRanks = 2;

RunState state_of(const Options& options) {
  RunState state{.step = 20};
  state.affects_results = results_options(options);
  state.affects_rounding = rounding_options(options);
  state.options = kept_values(options);
  return state;
}

// A run with the options `line`, at step 20.
RunState run_of(const std::string& line) { return state_of(parse(line)); }

ResumedOptions resumed(const RunState& saved, const std::string& line, const std::vector<OptionChange>& pending = {}) {
  return resumed_options(parse("--resume runs/1 " + line), saved, pending, kRanks);
}

// What the program says on a resume: the lines, or the refusal.
std::string says(const RunState& saved, const std::string& line, const std::vector<OptionChange>& pending = {}) {
  try {
    const ResumedOptions result = resumed(saved, line, pending);
    std::vector<std::string> changed;
    for (const OptionChange& change : result.changes) changed.push_back(change.option);
    require_same_results(result.expected, state_of(result.options), "step-20", changed);
    std::string text;
    for (const std::string& part : describe(result)) text += (text.empty() ? "" : "\n") + part;
    return text;
  } catch (const Error& e) {
    return fmt::format("{}: {}", static_cast<int>(e.code()), e.what());
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(ResumedOptions, KeepTheValuesOfTheRun) {
  const RunState run = run_of(
      "--lr 0.1 --model mlp --epochs 20 --save-every 100steps --data-path d --sync-bn --lr-scheduler cosine --lr-min "
      "0.01 --threads 2 --print-freq 7 --output-dir old --trace t.json --metrics-port 9000 --init glorot --seed 3");
  const ResumedOptions result = resumed(run, "--print-freq 9");
  const Options& o = result.options;
  EXPECT_EQ(o.train.schedule.lr, 0.1);
  EXPECT_EQ(o.network.model, "mlp");
  EXPECT_EQ(o.train.epochs, 20);
  EXPECT_EQ(o.train.save_every.steps, 100);
  EXPECT_EQ(o.data.path, "d");
  EXPECT_TRUE(o.replica.sync_bn);
  EXPECT_EQ(o.train.schedule.min_lr, 0.01);
  EXPECT_EQ(o.device.threads, 2);
  EXPECT_EQ(o.output.print_freq, 9);
  EXPECT_EQ(o.checkpoint.resume, "runs/1");
  EXPECT_EQ(o.output.dir, "");
  EXPECT_EQ(o.output.trace, "");
  EXPECT_EQ(o.output.metrics_port, 0);
  EXPECT_TRUE(result.changes.empty());
  EXPECT_EQ(says(run, "--print-freq 9"),
            "as in the run so far: --data-path d, --epochs 20, --lr 0.1, --lr-min 0.01, --lr-scheduler cosine, --model "
            "mlp, --save-every 100steps, --seed 3, --sync-bn true, --threads 2");
  EXPECT_EQ(says(run_of(""), ""), "");
}

TEST(ResumedOptions, GivenValuesAreComparedWithThoseOfTheRun) {
  const RunState run = run_of("--lr 0.1 --seed 3");
  const std::string refused = says(run, "--lr 0.3 --seed 4");
  EXPECT_TRUE(has(refused, "2: step-20 cannot be resumed by this run: --lr was 0.1, is 0.3; --seed was 3, is 4; "))
      << refused;
  EXPECT_TRUE(has(refused, "or change them by --change lr=0.3; or begin")) << refused;
  EXPECT_EQ(says(run, "--lr .1 --seed 3 --epochs 7"), "");  // epochs matter to no constant rate
  EXPECT_EQ(resumed(run, "--epochs 7").options.train.epochs, 7);
}

TEST(ResumedOptions, ChangeHoldsFromHereOn) {
  const RunState run = run_of("--lr 0.1 --momentum 0.9 --nesterov --lr-scheduler step --lr-gamma 0.5");
  const ResumedOptions result = resumed(run, "--change lr=0.01,epochs=30,lr-scheduler=multistep,lr-milestones=3,6");
  EXPECT_EQ(result.options.train.schedule.lr, 0.01);
  EXPECT_EQ(result.options.train.schedule.milestones, (std::vector<double>{3, 6}));
  EXPECT_EQ(result.options.train.schedule.gamma, 0.5);  // as in the run
  EXPECT_EQ(result.options.train.epochs, 30);
  ASSERT_EQ(result.changes.size(), 4u);
  EXPECT_EQ(result.changes[1].option, "--lr");
  EXPECT_EQ(result.changes[1].from, "0.1");
  EXPECT_EQ(result.changes[1].to, "0.01");
  EXPECT_EQ(result.changes[1].step, 20);
  EXPECT_TRUE(has(says(run, "--change lr=0.01"), "changed after step 20: --lr was 0.1, is 0.01"));
  // A value of the run that has lost its meaning has no effect; a changed one is refused.
  EXPECT_FALSE(resumed(run, "--change momentum=0").options.replica.optimizer.nesterov);
  EXPECT_EQ(resumed(run, "--change momentum=0").optimizer_states, 1);
  EXPECT_TRUE(has(says(run, "--change lr-min=0.1"), "2: --lr-min needs --lr-scheduler cosine, linear or plateau"));
  EXPECT_FALSE(has(says(run, "--change lr-scheduler=cosine,lr-min=0.001"), "2:"));
  EXPECT_FALSE(has(says(run, "--change lr=0.10"), "changed"));
  // Evaluations matter where they change the rate, epochs where it falls until their end.
  const RunState plateau = run_of("--lr-scheduler plateau");
  EXPECT_TRUE(
      has(says(plateau, "--eval-every 2"), "2: step-20 cannot be resumed by this run: --eval-every was 1, is 2"));
  EXPECT_TRUE(has(says(plateau, "--bn-stats running"), "--bn-stats"));
  EXPECT_FALSE(has(says(run, "--eval-every 2"), "2:"));
  EXPECT_FALSE(has(says(plateau, "--epochs 20"), "2:"));
  for (const std::string over_all : {"polynomial", "onecycle"})
    EXPECT_TRUE(has(says(run_of("--lr-scheduler " + over_all), "--epochs 20"), "--epochs was 10, is 20")) << over_all;
}

// The command line of the first start may stay.
TEST(ResumedOptions, GroupsChangeAndEnd) {
  const RunState run = run_of("--lr 0.1 --group a.*:lr=0.2:weight-decay=0");
  EXPECT_EQ(says(run, "--group a.*:weight-decay=0.0:lr=.2"), "as in the run so far: --lr 0.1");
  EXPECT_TRUE(has(says(run, "--group a.*:lr=0.3"),
                  "2: step-20 cannot be resumed by this run: --group was "
                  "a.*:lr=0.2:weight-decay=0, is a.*:lr=0.3; leave out what differs"));
  const std::string changed = "--change group=b:lr=0.4:weight-decay=0/c:momentum=0.5,lr=0.2";
  EXPECT_TRUE(
      has(says(run, changed), "--group was a.*:lr=0.2:weight-decay=0, is b:lr=0.4:weight-decay=0/c:momentum=0.5"));
  EXPECT_EQ(resumed(run, changed).options.replica.groups.at(0).rate, 2);
  EXPECT_TRUE(has(says(run, "--change group="), "--group was a.*:lr=0.2:weight-decay=0, is not set"));
  EXPECT_TRUE(resumed(run, "--change group=").options.replica.groups.empty());
}

TEST(ResumedOptions, ChangeReplacesAGivenValue) {
  const RunState run = run_of("--lr 0.1 --hflip 0.5 --crop-padding 4");
  EXPECT_TRUE(has(says(run, "--lr 0.1 --change lr=0.01"), "changed after step 20: --lr was 0.1, is 0.01"));
  EXPECT_EQ(resumed(run, "--lr 0.1 --change --lr=0.01").options.train.schedule.lr, 0.01);
  EXPECT_TRUE(has(says(run, "--crop-padding 4 --change hflip=auto"), "--hflip was 0.5, is auto"));
  EXPECT_FALSE(resumed(run, "--hflip 0.5 --change hflip=auto").options.data.input.hflip.has_value());
  const std::string falling = "--lr-scheduler step --lr-gamma 0.5 ";
  EXPECT_TRUE(has(says(run_of(falling), falling + "--change lr-scheduler=constant"), "changed after step 20"));
  EXPECT_TRUE(has(says(run, "--crop-padding 2 --change hflip=0"),
                  "2: step-20 cannot be resumed by this run: "
                  "--crop-padding was 4, is 2"));
}

TEST(ResumedOptions, RefuseWhatCannotChange) {
  const RunState run = run_of("");
  const std::pair<const char*, const char*> cases[] = {
      {"seed=3", "2: --change: --seed cannot change in a run: the order of the samples in the epoch follows from it; "},
      {"batch-size=8", "--batch-size cannot change in a run: the number of a step"},
      {"model-ema=true", "--model-ema cannot change in a run: the average begins with the run"},
      {"model=mlp", "--model cannot change in a run: "},
      {"optimizer=adam", "--optimizer cannot change in a run: its state belongs to this rule"},
      {"train-samples=5", "--train-samples cannot change in a run: the place in the epoch"},
      {"mean=imagenet", "--mean cannot change in a run: the weights were trained on images"},
      {"output-dir=x", "--output-dir is no property of the run; give --output-dir itself"},
      {"plan=true", "--plan is no property of the run"},
      {"frobnicate=1", "there is no option --frobnicate"},
      {"lr", "give NAME=VALUE with commas between"},
      {"lr=0.1,lr=0.2", "has --lr twice"},
      {"lr=fast", "--lr: "},
  };
  for (const auto& [change, text] : cases) {
    const std::string refused = says(run, fmt::format("--change {}", change));
    EXPECT_TRUE(has(refused, text) && refused.starts_with("2: ")) << refused;
  }
  try {
    parse("--change lr=0.1");
    FAIL();
  } catch (const Error& e) {
    EXPECT_TRUE(has(e.what(), "--change needs --resume")) << e.what();
  }
}

// The run was ended before its first checkpoint with the change.
TEST(ResumedOptions, ChangesWithoutACheckpointHoldToo) {
  const RunState run = run_of("--lr 0.1");
  const std::vector<OptionChange> pending{{20, "--lr", "0.1", "0.05"}, {20, "--momentum", "0", "0.5"}};
  EXPECT_EQ(resumed(run, "", pending).options.train.schedule.lr, 0.05);
  EXPECT_TRUE(has(says(run, "", pending), "--lr was 0.1, is 0.05"));
  EXPECT_TRUE(has(says(run, "--lr 0.1", pending), "2: step-20 cannot be resumed by this run: --lr was 0.05, is 0.1"));
  const ResumedOptions back = resumed(run, "--change lr=0.1", pending);
  ASSERT_EQ(back.changes.size(), 1u);
  EXPECT_EQ(back.changes[0].option, "--momentum");
  EXPECT_TRUE(has(says(run, "", {{20, "--seed", "0", "3"}}), "3: the options that the run has recorded are wrong"));
}

TEST(ResumedOptions, TheLargestBatchIsTheOneThatTheRunHasFound) {
  const RunState run = run_of("--batch-size 480 --lr-scale linear --lr 0.1");
  const ResumedOptions result = resumed(run, "--batch-size max");
  EXPECT_FALSE(result.options.batch.largest);
  EXPECT_EQ(result.options.batch.size, 480);
  EXPECT_EQ(result.options.named.at("--batch-size"), "480");
  EXPECT_NEAR(result.options.train.schedule.lr, 0.1 * 480 / 256, 1e-12);
  EXPECT_FALSE(has(says(run, "--batch-size max"), "cannot be resumed"));
  EXPECT_TRUE(has(says(run, "--batch-size 256"), "--batch-size was 480, is 256"));
}

TEST(ResumedOptions, LeaveOutWhatDoesNotFitTheDevice) {
  const RunState run = run_of("--no-graph --nccl-algo ring --precision tf32");
  const ResumedOptions result =
      resumed_options(parse("--resume runs/1 --nccl-algo ring"), run,
                      std::vector<OptionChange>{{20, "--no-graph", "", "true"}}, kRanks, {"--no-graph", "--precision"});
  EXPECT_TRUE(result.options.device.graphs);
  EXPECT_FALSE(result.options.device.precision.has_value());
  EXPECT_TRUE(result.options.transport.nccl_ring);
  EXPECT_EQ(describe(result),
            (std::vector<std::string>{
                "at their defaults, because they do not fit this device or transport: --no-graph, --precision"}));
}

TEST(ResumedOptions, SkippingReplacesAKeptCheckOfTheData) {
  const RunState run = run_of("--check-data none");
  for (const char* const line : {"--on-error skip", "--change on-error=skip"}) {
    EXPECT_FALSE(has(says(run, line), "2:")) << says(run, line);
    EXPECT_TRUE(resumed(run, line).options.data.skip_broken);
    EXPECT_EQ(resumed(run, line).options.data.check, CheckData::automatic);
  }
  EXPECT_TRUE(resumed(run, "", {{20, "--on-error", "stop", "skip"}}).options.data.skip_broken);
  EXPECT_TRUE(
      has(says(run, "--on-error skip --check-data none"), "2: --on-error skip needs --check-data auto or full"));
  EXPECT_EQ(resumed(run, "").options.data.check, CheckData::none);
}

TEST(ResumedOptions, AConflictNamesAValueOfTheRun) {
  const RunState run = run_of("--on-error skip");
  EXPECT_TRUE(has(says(run, "--check-data none"),
                  "2: --on-error skip needs --check-data auto or full; --on-error is as in the run so far: give it "
                  "another value"))
      << says(run, "--check-data none");
}

TEST(ResumedOptions, FitTheNumberOfRanks) {
  EXPECT_EQ(resumed(run_of("--rank-weights 2,1"), "").options.batch.rank_weights, (std::vector<double>{2, 1}));
  EXPECT_TRUE(resumed(run_of("--rank-weights 2,1,1"), "").options.batch.rank_weights.empty());
  EXPECT_TRUE(resumed(run_of("--rank-weights auto"), "").options.batch.balanced);
  EXPECT_FALSE(resumed(run_of("--rank-weights auto"), "--rank-weights 2,1").options.batch.balanced);
}

// An older program recorded options with an effect only; one of a later program may record others.
TEST(ResumedOptions, OfOtherProgramsAreKept) {
  RunState older = run_of("--lr 0.1 --hflip 0.5 --epochs 20 --zero 1");
  older.options.clear();
  older.affects_results["--dataset"] = "folder";
  older.affects_results["input"] = "flips 0.5";
  const ResumedOptions result = resumed(older, "--hflip 0.5 --change crop-padding=4");
  EXPECT_EQ(result.options.train.schedule.lr, 0.1);
  EXPECT_TRUE(result.options.replica.zero);
  EXPECT_EQ(result.options.data.name, "auto");
  EXPECT_EQ(result.options.train.epochs, 10);
  RunState later = run_of("--lr 0.1");
  later.options["--of-tomorrow"] = "3";
  EXPECT_EQ(resumed(later, "").options.train.schedule.lr, 0.1);
  later.options["--lr"] = "fast";
  EXPECT_TRUE(has(says(later, ""), "3: the options that the run has recorded are wrong: --lr"));
}

}  // namespace
}  // namespace ddp
