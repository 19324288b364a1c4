// A full disk: a run whose folder is a file system of 1 MiB, which has room for one checkpoint. It says which files it
// could not write and ends with the documented code; with more room it resumes and loses nothing.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

namespace ddp::testing {
namespace {

constexpr int kSkipped = 77, kStepsOfRun = 8;

TEST(FullDisk, RunSaysWhatItLosesAndResumes) {
  const TempFolder folder;
  few_images(folder / "data", 200, 100);
  const auto run = [&](const std::string& where, const std::string& more) {
    return fmt::format(
        "CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} -np 2 {} --model mlp --data-path data --batch-size 20 "
        "--threads 1 --eval-every 0 --print-freq 0 --max-steps {} {} {}",
        DDP_MPIRUN, DDP_PROGRAM, kStepsOfRun, where, more);
  };
  const Outcome full = shell(fmt::format(
      R"(cd {} && exec unshare -m bash -c '
         mkdir disk && mount -t tmpfs -o size=1m tmpfs disk || exit 77
         {} & job=$!
         until [ -e disk/run/checkpoints/latest ] || ! kill -0 $job; do sleep 0.02; done
         cat /dev/zero >disk/rest
         wait $job
         echo code $?
         rm disk/rest && mount -o remount,size=4m disk && {}
         code=$?
         cp -a disk/run . && exit $code')",
      folder.path().string(), run("--output-dir disk/run", "--save-every 2steps --inject rank=all,kind=slow"),
      run("--resume disk/run", "--save-every 2steps")));
  if (full.code == kSkipped) GTEST_SKIP() << "needs root and unshare: " << full.output;
  for (const char* said :
       {"warning: no checkpoint of step 4: cannot write disk/run/checkpoints/",
        "[rank 1] warning: cannot write disk/run/flight/", "error: rank 0: cannot write disk/run/.model.safetensors",
        "code 4\n", "disk/run/checkpoints/step-00000002 at step 2\n"})
    EXPECT_EQ(count(full.output, said), 1) << said << "\n" << full.output;
  EXPECT_GE(count(full.output, ": No space left on device; make room or choose another --output-dir"), 4)
      << full.output;
  ASSERT_EQ(full.code, 0) << full.output;

  const Outcome undisturbed = shell(fmt::format("cd {} && {}", folder.path().string(), run("--output-dir whole", "")));
  ASSERT_EQ(undisturbed.code, 0) << undisturbed.output;
  EXPECT_TRUE(read_file(folder / "run" / "model.safetensors") == read_file(folder / "whole" / "model.safetensors"));
  const auto steps = values_of<int>(folder / "run", "step", "step");
  EXPECT_EQ(steps, values_of<int>(folder / "whole", "step", "step"));
  EXPECT_EQ(std::ssize(steps), kStepsOfRun);
}

}  // namespace
}  // namespace ddp::testing
