// Today's program resumes a run whose files are of format 1 (state.json has `mathematics`, `bits` and `choices`).
// Commit 26546e9 made tests/system/cli/format1_run on a CPU, from the images of few_images("images", 128, 100), with
//   ddp_train --data-path images --batch-size 16 --momentum 0 --max-steps 8 --eval-every 0 --threads 1 --print-freq 0
//             --save-every 4steps --output-dir format1_run --inject step=6,kind=nan
// The NaN ended the run in step 6; its checkpoint is of step 4 of the 8 of an epoch.
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <string>

namespace ddp::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class Format1 : public ::testing::Test {
 protected:
  Format1() {
    few_images(folder_ / "images", 128, 100);
    fs::copy(DDP_FORMAT1_RUN, run(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  fs::path run() const { return folder_ / "run"; }
  // The configuration is the one that the run has written; it asks for 8 steps.
  Outcome resume(int ranks, const std::string& more = "") const {
    return program(ranks, fmt::format("--config {0}/config.toml --data-path {1} --output-dir {0} --resume {0} {2}",
                                      run().string(), images(), more));
  }
  // Today's program trains 8 steps without a break.
  fs::path uninterrupted() const {
    const fs::path whole = folder_ / "whole";
    const Outcome outcome =
        program(0, fmt::format("--data-path {} --batch-size 16 --max-steps 8 --eval-every 0 --threads 1 --print-freq 0 "
                               "--save-every 4steps --output-dir {}",
                               images(), whole.string()));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return whole;
  }
  void expect_eight_steps() const {
    EXPECT_EQ(json::parse(read_file(run() / "summary.json")).at("steps"), 8);
    EXPECT_EQ(json::parse(read_file(run() / "checkpoints/latest/state.json")).at("step"), 8);
    EXPECT_EQ(count(read_file(run() / "metrics.jsonl"), "\"event\":\"step\""), 8);
  }

 private:
  std::string images() const { return (folder_ / "images").string(); }

  TempFolder folder_;
};

// Another CPU, or a kernel that has changed, may round otherwise: the first four steps differ already.
TEST_F(Format1, EndsAsAnUninterruptedRun) {
  const fs::path whole = uninterrupted(), step4 = "checkpoints/step-00000004/model.safetensors";
  const Outcome outcome = resume(0);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, " at step 4\n"), 1) << outcome.output;
  expect_eight_steps();
  expect_close_tensors(run() / "model.safetensors", whole / "model.safetensors");
  if (count(outcome.output, "not bit-identical") == 0 && read_file(run() / step4) == read_file(whole / step4)) {
    EXPECT_TRUE(read_file(run() / "model.safetensors") == read_file(whole / "model.safetensors"));
  }
}

TEST_F(Format1, SaysWhatChangesItsRounding) {
  const Outcome outcome = resume(2, "--conv direct");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "not bit-identical"), 1) << outcome.output;
  for (const char* part : {"--conv was auto, is direct", "world size was 1, is 2"})
    EXPECT_EQ(count(outcome.output, part), 1) << part << outcome.output;
  EXPECT_EQ(count(outcome.output, "not set"), 0) << outcome.output;
  expect_eight_steps();
  expect_close_tensors(run() / "model.safetensors", uninterrupted() / "model.safetensors");
}

TEST_F(Format1, RefusesWhatChangesItsResults) {
  const Outcome outcome = resume(0, "--lr 0.1 --seed 7");
  EXPECT_EQ(outcome.code, 2) << outcome.output;
  for (const char* part : {"--lr was 0.2, is 0.1", "--seed was 0, is 7"})
    EXPECT_EQ(count(outcome.output, part), 1) << part << outcome.output;
  EXPECT_EQ(count(outcome.output, "not set"), 0) << outcome.output;
}

TEST_F(Format1, InspectPrintsWhatIsInIt) {
  const Outcome outcome = shell(fmt::format("{} inspect {}", DDP_PROGRAM, run().string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* part :
       {"step-00000004", "step 4,", "--lr = 0.2", "data set = 128 and 100 images", "world size = 1", "3.weight"})
    EXPECT_GE(count(outcome.output, part), 1) << part << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
