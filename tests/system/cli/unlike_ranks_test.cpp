// Ranks on unlike processors or in containers of their own, on one machine.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/run_folder.h"

#include <unistd.h>

namespace ddp::testing {
namespace {

// Two ranks; `second` comes before the program of rank 1.
Outcome two_ranks(const std::string& second, const std::string& options) {
  return shell(fmt::format("CUDA_VISIBLE_DEVICES= timeout -k 5 400 {0} -np 1 {1} {3} : -np 1 {2} {1} {3}", DDP_MPIRUN,
                           DDP_PROGRAM, second, options));
}

class UnlikeRanks : public ::testing::Test {
 protected:
  UnlikeRanks() { few_images(folder / "data", 40, 20); }
  std::string options(const std::string& name, const std::string& more) const {
    return fmt::format("--data-path {} --lr 0.02 --threads 1 --print-freq 1 --output-dir {} {}",
                       (folder / "data").string(), (folder / name).string(), more);
  }
  std::string weights(const std::string& name) const { return read_file(folder / name / "model.safetensors"); }

  const TempFolder folder;
};

// oneDNN rounds in another way on rank 1. The replicas are compared after each step.
TEST_F(UnlikeRanks, KeepEqualReplicasWithOtherInstructionSets) {
  const std::string more =
      "--model resnet18 --batch-size 4 --max-steps 2 --eval-every 0 --check-every 1 --save-every never --sync-bn "
      "--clip-grad-norm 0.5";
  for (const char* set : {"AVX2", "AVX"}) {
    const Outcome outcome = two_ranks(fmt::format("env ONEDNN_MAX_CPU_ISA={}", set), options(set, more));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
  }
  EXPECT_TRUE(weights("AVX2") != weights("AVX"));  // the limit has an effect
}

// As in two containers of one host.
TEST_F(UnlikeRanks, TrainWithProcessNumbersOfTheirOwn) {
  const std::string numbers = "unshare --pid --fork --kill-child --mount-proc";
  if (::geteuid() != 0 || shell(numbers + " true").code != 0) GTEST_SKIP() << "needs root, to unshare process numbers";
  const std::string more = "--model mlp --batch-size 8 --max-steps 10 --check-every 1 ";
  const Outcome shared = two_ranks("", options("shared", more)), apart = two_ranks(numbers, options("apart", more));
  ASSERT_EQ(shared.code, 0) << shared.output;
  ASSERT_EQ(apart.code, 0) << apart.output;
  EXPECT_TRUE(weights("apart") == weights("shared"));
  EXPECT_EQ(count(apart.output, "warning"), count(shared.output, "warning")) << apart.output;
  EXPECT_EQ(count(shared.output, "allreduce by shared memory"), 1) << shared.output;
  EXPECT_EQ(count(apart.output, "allreduce by ring, as a rank cannot map the memory of another rank"), 1)
      << apart.output;
}

}  // namespace
}  // namespace ddp::testing
