// Which checkpoint --resume takes, what it refuses, and what it changes.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

// A short run with checkpoints at steps 10, 20, 30 and 40.
class Checkpointed : public ::testing::Test {
 protected:
  Checkpointed() {
    few_images(folder_ / "images", 640, 100);
    const Outcome outcome = program(0, options(40) + "--save-every 10steps --keep-last 4");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
  }
  std::string options(int steps, int samples = 640) const {
    return fmt::format("{} --train-samples {} --max-steps {} --output-dir {} ", common(), samples, steps,
                       run().string());
  }
  std::string common() const {
    return fmt::format("--data-path {} --batch-size 16 --print-freq 0 --eval-every 0", (folder_ / "images").string());
  }
  fs::path run() const { return folder_ / "run"; }
  fs::path checkpoint(int step) const { return run() / "checkpoints" / fmt::format("step-{:08}", step); }
  void refuse(const std::string& more, int code, std::vector<std::string> texts, int samples = 640, int ranks = 0) {
    const Outcome outcome = program(ranks, options(60, samples) + more);
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
  refuse("--resume auto --lr 0.1 --model mlp --seed 7 --optimizer adam --freeze 3", 2,
         {"--lr was 0.2, is 0.1", "--model was lenet, is mlp", "--seed was 0, is 7", "--optimizer was sgd, is adam",
          "--freeze was not set, is 3", "--train-samples was 640, is 320"},
         320, 2);
  refuse("--resume " + checkpoint(20).string(), 4, {checkpoint(40).string() + " is newer"});
  refuse("--resume " + run().string() + " --init-from x.safetensors", 2, {"excludes --init-from"});
  refuse("", 4, {"already has a run"});
  refuse("--resume nowhere", 3, {"nowhere"});
  refuse("--resume auto --change seed=3", 2, {"--seed cannot change in a run: the order of the samples"});
  refuse("--resume auto --change freeze=3,0.bias", 2, {"--freeze cannot change in a run: the optimizer has the state"});
  for (const int step : {10, 20, 30, 40}) fs::resize_file(checkpoint(step) / "state.json", 10);
  refuse("--resume auto", 3, {});
}

TEST_F(Checkpointed, ResumesFromANamedCheckpointInTheSameOrAnotherRun) {
  const std::string more = common() + " --train-samples 640 --max-steps 60 --resume ";
  const Outcome elsewhere =
      program(2, fmt::format("{}{} --output-dir {}", more, checkpoint(20).string(), (folder_ / "other").string()));
  ASSERT_EQ(elsewhere.code, 0) << elsewhere.output;
  EXPECT_EQ(count(elsewhere.output, " at step 20\n"), 1) << elsewhere.output;
  EXPECT_EQ(count(elsewhere.output, "world size was 1, is 2"), 1) << elsewhere.output;
  EXPECT_TRUE(fs::exists(folder_ / "other" / "model.safetensors"));

  const Outcome here = program(0, more + run().string());
  ASSERT_EQ(here.code, 0) << here.output;
  EXPECT_EQ(count(here.output, " at step 40\n"), 1) << here.output;
  EXPECT_EQ(count(here.output, "results in " + run().string()), 1) << here.output;
}

// Step 20 is the middle of an epoch. There the rate becomes a quarter, as in a run with a milestone; the options of the
// run are not given again. Then a change is made that no checkpoint has before the run is killed.
TEST_F(Checkpointed, ChangesOptionsInsideAnEpoch) {
  const fs::path changed = folder_ / "changed", falling = folder_ / "falling";
  const auto ends = [](const Outcome& outcome, int code) { EXPECT_EQ(outcome.code, code) << outcome.output; };
  ends(program(0, fmt::format("{} --train-samples 640 --max-steps 30 --lr-scheduler multistep --lr-milestones 0.5 "
                              "--lr-gamma 0.25 --output-dir {}",
                              common(), falling.string())),
       0);
  const std::string from_20 =
      fmt::format("--resume {} --max-steps 30 --output-dir {} ", checkpoint(20).string(), changed.string());
  const Outcome first = program(0, from_20 + "--lr 0.2 --change lr=0.05");
  ends(first, 0);
  for (const char* part : {"as in the run so far: --batch-size 16, --data-path", "--save-every 10steps",
                           "changed after step 20: --lr was 0.2, is 0.05\n", " at step 20\n"})
    EXPECT_EQ(count(first.output, part), 1) << part << first.output;
  EXPECT_TRUE(read_file(changed / "model.safetensors") == read_file(falling / "model.safetensors"));
  EXPECT_EQ(values_of<double>(changed, "step", "lr"), std::vector<double>(10, 0.05));

  const std::string again = fmt::format("--resume auto --output-dir {} --max-steps 36 ", changed.string());
  EXPECT_NE(program(0, again + "--change lr=0.025,momentum=0.5 --inject kind=kill,rank=0,step=33").code, 0);
  const Outcome killed = program(2, again);
  ends(killed, 0);
  EXPECT_EQ(count(killed.output, "changed after step 30: --lr was 0.05, is 0.025\n"), 1) << killed.output;
  const std::vector<double> rates = values_of<double>(changed, "step", "lr");
  EXPECT_EQ(std::vector(rates.begin() + 10, rates.end()), std::vector<double>(6, 0.025));
  EXPECT_EQ(count(read_file(changed / "checkpoints/latest/optimizer.safetensors"), "momentum_buffer"), 8);

  const Outcome refused = program(0, again + "--lr 0.2");
  ends(refused, 2);
  EXPECT_EQ(count(refused.output, "--lr was 0.025, is 0.2; leave out what differs"), 1) << refused.output;
  const auto changes = nlohmann::json::parse(read_file(changed / "changes.json"));
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0], (nlohmann::json{{"step", 20}, {"option", "--lr"}, {"from", "0.2"}, {"to", "0.05"}}));
  EXPECT_EQ(changes[2], (nlohmann::json{{"step", 30}, {"option", "--momentum"}, {"from", "0"}, {"to", "0.5"}}));
}

// With its steps, and with fewer.
TEST_F(Checkpointed, FinishedRunFinishesAgainWithTheSameBytes) {
  const std::string before = read_file(run() / "model.safetensors");
  for (const int steps : {40, 30}) {
    fs::remove(run() / "model.safetensors");
    const Outcome outcome = program(0, options(steps) + "--resume auto");
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

class NewRun : public ::testing::Test {
 protected:
  NewRun() { few_images(folder / "images", 64, 100); }
  std::string options(const char* name) const {
    return fmt::format("--data-path {} --batch-size 16 --eval-every 0 --print-freq 0 --output-dir {}",
                       (folder / "images").string(), (folder / name).string());
  }
  const TempFolder folder;
};

// Writes the weights of `from` with this prefix before each name.
void rename_tensors(const fs::path& from, const fs::path& to, const std::string& prefix) {
  const std::string file = read_file(from);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const std::string data = file.substr(8 + length);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  nlohmann::json renamed;
  for (const auto& [name, entry] : header.items()) renamed[name.starts_with("__") ? name : prefix + name] = entry;
  const std::string text = renamed.dump();
  length = text.size();
  std::ofstream(to, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8) << text << data;
}

// The user can repeat the same command in any state of the run.
TEST_F(NewRun, ResumeAutoAcceptsInitialWeights) {
  const auto run = [&](const char* name, const std::string& more) {
    const Outcome outcome = program(0, options(name) + more);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome.output;
  };
  run("first", " --max-steps 1");
  const std::string weights = " --resume auto --init-from " + (folder / "first").string();
  run("straight", weights + " --max-steps 2");
  EXPECT_EQ(count(run("twice", weights + " --max-steps 1"), "a new run begins"), 1);
  EXPECT_EQ(count(run("twice", weights + " --max-steps 2"), "resumed from"), 1);
  EXPECT_TRUE(read_file(folder / "twice" / "model.safetensors") ==
              read_file(folder / "straight" / "model.safetensors"));

  // Rank 0 alone reads the weights: no other rank has such a file. Its names are those of a wrapped module.
  rename_tensors(folder / "first" / "model.safetensors", folder / "first" / "wrapped.safetensors", "module._orig_mod.");
  const std::string command =
      fmt::format("{} {} --max-steps 1 --init-from wrapped.safetensors", DDP_PROGRAM, options("two"));
  const Outcome two = shell(fmt::format("timeout -k 5 400 {} -np 1 -wdir {} {} : -np 1 -wdir {} {}", DDP_MPIRUN,
                                        (folder / "first").string(), command, (folder / "").string(), command));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_EQ(count(two.output, "begin with \"module._orig_mod.\", which is removed\n"), 1) << two.output;
}

TEST_F(NewRun, RefusesAFolderThatAnotherRunWritesTo) {
  const std::string run = (folder / "run").string();
  const Outcome outcome =
      shell(fmt::format("( {0} --epochs 1000000 >/dev/null & job=$!; "
                        "for i in $(seq 3000); do [ -s {1}/metrics.jsonl ] && break; sleep 0.1; done; "
                        "{0} --resume auto --print-order 1 >/dev/null && echo printed; "
                        "{0} --max-steps 1 --resume auto; code=$?; kill -KILL $job; wait $job; exit $code )",
                        DDP_PROGRAM + (" " + options("run")), run));
  EXPECT_EQ(outcome.code, 4) << outcome.output;
  EXPECT_EQ(count(outcome.output, "another run still writes to " + run), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "printed\n"), 1) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
