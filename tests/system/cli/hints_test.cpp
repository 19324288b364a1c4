// Early signs of runs that will not learn, or waste their time. The hint about slow data is beside the tests of slow
// disks, and that the recipes print none beside those of the recipes.
#include "core/error.h"
#include "tests/system/cli/idx_data.h"
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

class Hints : public ::testing::Test {
 protected:
  std::string options(const std::string& more) const {
    return fmt::format(
        "--train-samples 5000 --batch-size 16 --threads 1 --eval-every 0 --save-every never --print-freq 0 "
        "--output-dir {} {}",
        (folder_ / "run").string(), more);
  }

  const TempFolder folder_;
};

TEST_F(Hints, ALearningRateThatIsTooHigh) {
  const Outcome outcome = program(0, options("--max-steps 1010 --lr 100"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: the gradients of 7 of 8 parameters are zero, so they do not learn ("), 1)
      << outcome.output;
  EXPECT_EQ(count(outcome.output, "; a lower --lr (now 100) keeps ReLUs from dying\n"), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: "), 1) << outcome.output;
}

TEST_F(Hints, ALearningRateOfZero) {
  const Outcome outcome = program(0, options("--max-steps 1010 --lr 0"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: the loss has not fallen "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "try another --lr (now 0)\n"), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: "), 1) << outcome.output;
}

// The rate rises a hundredfold at step 189. So the loss jumps at step 190, and stays high; the hint comes once.
TEST_F(Hints, ALossThatJumps) {
  for (const bool clips : {false, true}) {
    const Outcome outcome = program(
        0,
        options(fmt::format("--max-steps 192 --lr 0.1 --lr-scheduler multistep --lr-milestones 0.6 --lr-gamma 100 {}",
                            clips ? "--clip-grad-norm 1e6" : "")));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "hint: the loss"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "hint: the loss jumped at step 190: "), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output,
                    clips ? "; try a lower --lr (now 10)\n" : "; try a lower --lr (now 10), or --clip-grad-norm 1\n"),
              1)
        << outcome.output;
    std::filesystem::remove_all(folder_ / "run");
  }
}

// The weights are so small that all activations become 0. The last bias alone has a gradient.
TEST_F(Hints, GradientsOfZero) {
  const Outcome outcome = program(2, options("--max-steps 20 --init normal:1e-30"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: the gradients of 7 of 8 parameters are zero"), 1) << outcome.output;
}

// On images of 32 x 32 the last batch norms have one position. 33 samples leave a last batch of one, without gradients.
TEST_F(Hints, ABatchNormOfOneValue) {
  const std::string data = idx_data(folder_, 32, 32, 33, 10) + " --model torchvision-resnet18 --lr 0.01 --epochs 4 ";
  const auto run = [&](int ranks, const std::string& more) {
    return program(
        ranks, fmt::format("{} {} --threads 1 --eval-every 0 --save-every never --print-freq 0 --output-dir {}", data,
                           more, (folder_ / "run").string()));
  };
  const Outcome refused = run(2, "--batch-size 2");
  EXPECT_EQ(refused.code, static_cast<int>(Exit::usage)) << refused.output;
  EXPECT_EQ(count(refused.output,
                  "batch norm layer4.0.downsample.1 normalises a single value in every step: rank 0 has "
                  "one sample of the batch of 2,"),
            1)
      << refused.output;
  EXPECT_EQ(count(refused.output, "give --sync-bn or another --batch-size, such as 7\n"), 1) << refused.output;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));

  const Outcome warned = run(0, "--batch-size 16");
  EXPECT_EQ(warned.code, 0) << warned.output;
  EXPECT_EQ(count(warned.output,
                  "warning: batch norm layer4.0.downsample.1 normalises a single value in the last step of "
                  "each epoch: rank 0 has one sample of the batch of 1,"),
            1)
      << warned.output;
  EXPECT_EQ(count(warned.output, "hint: the gradients"), 0) << warned.output;
}

TEST_F(Hints, OneCoreForTwoRanks) {
  const Outcome outcome = shell(fmt::format("CUDA_VISIBLE_DEVICES= timeout -k 5 400 taskset -c 0 {} -np 2 {} {}",
                                            DDP_MPIRUN, DDP_PROGRAM, options("--max-steps 20")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: 2 ranks share core 0 of "), 1) << outcome.output;
}

TEST_F(Hints, AnOrdinaryRunHasNone) {
  const Outcome outcome = program(0, options("--max-steps 1010 --lr 0.05"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "hint: "), 0) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
