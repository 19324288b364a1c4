// A run that is killed and resumed ends with the bytes of an undisturbed run.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/program.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct ResumeCase {
  const char* name;
  int ranks;
  uint32_t samples;
  const char* options;
  int steps, save_every;
  bool evaluates = true;
};

void PrintTo(const ResumeCase& c, std::ostream* out) { *out << c.name; }

class Resume : public ::testing::TestWithParam<ResumeCase> {};

std::vector<int64_t> steps_in(const fs::path& run) {
  std::vector<int64_t> steps;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event.at("event") == "step") steps.push_back(event.at("step"));
  }
  return steps;
}

// A save ends before the next one begins. So the kill, which follows the second save, finds the first or both.
//
// The undisturbed run neither saves nor evaluates before its end. So equal bytes also prove that saves and evaluations
// do not change the result.
TEST_P(Resume, AfterAKillEndsWithTheSameBytes) {
  const ResumeCase c = GetParam();
  const TempFolder folder;
  few_images(folder / "images", c.samples, 500);
  const auto run = [&](const char* name, const std::string& more) {
    return program(c.ranks, fmt::format("{} --data-path {} --max-steps {} --print-freq 0 --output-dir {} {}", c.options,
                                        (folder / "images").string(), c.steps, (folder / name).string(), more));
  };
  const Outcome whole =
      run("whole", c.evaluates ? "--save-every never --eval-every 1000" : "--save-every never --eval-every 0");
  ASSERT_EQ(whole.code, 0) << whole.output;

  const std::string saves = fmt::format("--save-every {}steps --eval-every {:d}", c.save_every, c.evaluates);
  const Outcome killed = run(
      "cut", fmt::format("{} --inject rank={},step={},kind=kill", saves, c.ranks - 1, c.steps / 2 + c.save_every / 2));
  ASSERT_NE(killed.code, 0) << killed.output;
  ASSERT_FALSE(fs::exists(folder / "cut" / "model.safetensors"));
  std::ofstream(folder / "cut" / "metrics.jsonl", std::ios::app)  // of a step that no checkpoint has
      << fmt::format("\n{{\"event\": \"step\", \"step\": {}}}\n", c.steps - 1);
  const Outcome resumed = run("cut", saves + " --resume auto");
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(count(resumed.output, fmt::format("resumed from {}", (folder / "cut").string())), 1) << resumed.output;
  int known = 0;
  for (const int step : {c.save_every, 2 * c.save_every})
    known += count(resumed.output, fmt::format(" at step {}\n", step));
  EXPECT_EQ(known, 1) << resumed.output;
  EXPECT_EQ(count(resumed.output, "not bit-identical"), 0) << resumed.output;
  EXPECT_TRUE(read_file(folder / "cut" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));
  EXPECT_EQ(steps_in(folder / "cut"), steps_in(folder / "whole"));
}

INSTANTIATE_TEST_SUITE_P(
    , Resume,
    ::testing::Values(
        ResumeCase{"LeNet", 2, 17920, "", 100, 25},
        ResumeCase{"ResNet18Momentum", 2, 120,
                   "--model resnet18 --batch-size 8 --lr 0.01 --momentum 0.9 --bn-stats running", 20, 5},
        ResumeCase{"KerasConvnetAdamDropout", 2, 320,
                   "--model keras-convnet --batch-size 16 --optimizer adam --lr 0.001 --bn-stats running", 40, 10},
        ResumeCase{"KerasConvnetZero", 3, 320,
                   "--model keras-convnet --batch-size 16 --optimizer adam --lr 0.001 --bn-stats running --zero 1", 40,
                   10}),
    [](const auto& test) { return std::string(test.param.name); });

// A short run with checkpoints at steps 10, 20, 30 and 40.
class Checkpointed : public ::testing::Test {
 protected:
  Checkpointed() {
    const Outcome outcome = program(2, options(40) + "--save-every 10steps --keep-last 4");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  std::string options(int steps, int samples = 640) const {
    return fmt::format(
        "--train-samples {} --batch-size 16 --print-freq 0 --eval-every 0 --max-steps {} --output-dir {} ", samples,
        steps, run().string());
  }
  fs::path run() const { return folder_ / "run"; }
  fs::path checkpoint(int step) const { return run() / "checkpoints" / fmt::format("step-{:08}", step); }
  void refuse(const std::string& more, int code, std::vector<std::string> texts, int samples = 640) {
    const Outcome outcome = program(2, options(60, samples) + more);
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    for (const std::string& text : texts) EXPECT_EQ(count(outcome.output, text), 1) << text << "\n" << outcome.output;
  }
  TempFolder folder_;
};

TEST_F(Checkpointed, FallsBackToThePreviousCheckpointAndNamesTheBrokenFile) {
  fs::resize_file(checkpoint(40) / "model.safetensors", 1000);
  fs::remove(checkpoint(30) / "optimizer.safetensors");
  const Outcome outcome = program(2, options(60) + "--resume auto");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, (checkpoint(40) / "model.safetensors").string()), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, (checkpoint(30) / "optimizer.safetensors").string()), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, fmt::format("resumed from {} at step 20\n", checkpoint(20).string())), 1)
      << outcome.output;
}

TEST_F(Checkpointed, RefusesOptionsThatChangeTheResults) {
  refuse("--resume auto --lr 0.1", 2, {"--lr was 0.2, is 0.1"});
  refuse("--resume auto --model mlp --seed 7", 2, {"--model was lenet, is mlp", "--seed was 0, is 7"});
  refuse("--resume auto --optimizer adam", 2, {"--optimizer was sgd, is adam"});
  refuse("--resume auto", 2, {"--train-samples was 640, is 320"}, 320);
  refuse("--resume " + checkpoint(20).string(), 4, {checkpoint(40).string() + " is newer"});
  refuse("--resume " + run().string() + " --init-from x.safetensors", 2, {"excludes --init-from"});
  refuse("", 4, {"already has a run"});
  refuse("--resume nowhere", 3, {"nowhere"});
  for (const int step : {10, 20, 30, 40}) fs::resize_file(checkpoint(step) / "state.json", 10);
  refuse("--resume auto", 3, {});
}

TEST_F(Checkpointed, ResumesFromANamedCheckpointInTheSameOrAnotherRun) {
  const std::string other = fmt::format(
      "--train-samples 640 --batch-size 16 --print-freq 0 --eval-every 0 --max-steps 60 --resume {} --output-dir {}",
      checkpoint(20).string(), (folder_ / "other").string());
  const Outcome elsewhere = program(3, other);
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.output;
  EXPECT_EQ(count(elsewhere.output, " at step 20\n"), 1) << elsewhere.output;
  EXPECT_EQ(count(elsewhere.output, "world size was 2, is 3"), 1) << elsewhere.output;
  EXPECT_TRUE(fs::exists(folder_ / "other" / "model.safetensors"));

  const Outcome here = program(
      0, fmt::format("--train-samples 640 --batch-size 16 --print-freq 0 --max-steps 60 --resume {}", run().string()));
  ASSERT_EQ(here.code, 0) << here.output;
  EXPECT_EQ(count(here.output, " at step 40\n"), 1) << here.output;
  EXPECT_EQ(count(here.output, "results in " + run().string()), 1) << here.output;
}

// With its steps, and with fewer.
TEST_F(Checkpointed, FinishedRunFinishesAgainWithTheSameBytes) {
  const std::string before = read_file(run() / "model.safetensors");
  for (const int steps : {40, 30}) {
    fs::remove(run() / "model.safetensors");
    const Outcome outcome = program(2, options(steps) + "--resume auto");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_TRUE(read_file(run() / "model.safetensors") == before);
  }
}

TEST_F(Checkpointed, InspectPrintsTheContent) {
  const Outcome outcome = shell(fmt::format("{} inspect {}", DDP_PROGRAM, run().string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* part : {"step-00000040", "--lr = 0.2", "3.weight", "step 40,"})
    EXPECT_GE(count(outcome.output, part), 1) << part << outcome.output;
  EXPECT_EQ(shell(fmt::format("{} inspect {}", DDP_PROGRAM, (folder_ / "nothing").string())).code, 3);
  EXPECT_EQ(shell(fmt::format("{} inspect", DDP_PROGRAM)).code, 2);
}

TEST(NewRun, ResumeAutoWithoutACheckpointStartsANewRun) {
  const TempFolder folder;
  const Outcome outcome =
      program(2, fmt::format("--train-samples 64 --max-steps 1 --eval-every 0 --resume auto --output-dir {}",
                             (folder / "run").string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "has no checkpoint yet: a new run begins"), 1) << outcome.output;
  EXPECT_EQ(program(2, "--resume auto").code, 2);
}

// The user can repeat the same command in any state of the run.
TEST(NewRun, ResumeAutoAcceptsInitialWeights) {
  const TempFolder folder;
  const auto run = [&](const char* name, const std::string& more) {
    const std::string options = "--train-samples 64 --batch-size 16 --eval-every 0 --print-freq 0 --output-dir ";
    const Outcome outcome = program(1, options + (folder / name).string() + more);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  run("first", " --max-steps 1");
  const std::string weights = " --resume auto --init-from " + (folder / "first" / "model.safetensors").string();
  run("straight", weights + " --max-steps 2");
  EXPECT_EQ(count(run("twice", weights + " --max-steps 1"), "a new run begins"), 1);
  EXPECT_EQ(count(run("twice", weights + " --max-steps 2"), "resumed from"), 1);
  EXPECT_TRUE(read_file(folder / "twice" / "model.safetensors") ==
              read_file(folder / "straight" / "model.safetensors"));

  // Rank 0 alone reads the weights: no other rank has such a file.
  const std::string command =
      fmt::format("{} --init-from model.safetensors --train-samples 64 --max-steps 1 --eval-every 0 --output-dir {}",
                  DDP_PROGRAM, (folder / "two").string());
  const Outcome two = shell(fmt::format("timeout -k 5 60 {} -np 1 -wdir {} {} : -np 1 -wdir {} {}", DDP_MPIRUN,
                                        (folder / "first").string(), command, (folder / "").string(), command));
  EXPECT_EQ(two.code, 0) << two.output;
}

TEST(NewRun, RefusesAFolderThatAnotherRunWritesTo) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Outcome outcome = shell(
      fmt::format("( {0} --epochs 1000 --eval-every 0 --output-dir {1} >/dev/null & job=$!; "
                  "for i in $(seq 100); do [ -s {1}/metrics.jsonl ] && break; sleep 0.1; done; "
                  "{0} --max-steps 1 --resume auto --output-dir {1}; code=$?; kill -KILL $job; wait $job; exit $code )",
                  DDP_PROGRAM, run));
  EXPECT_EQ(outcome.code, 4) << outcome.output;
  EXPECT_EQ(count(outcome.output, "another run still writes to " + run), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
