// At its end, a run says what limits its speed: here by a clock by which computing takes no time (waiting_clock.cpp),
// and an injected fault 200 ms. The tests of slow disks and links are beside the tests of these faults.
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

Outcome slowed(int ranks, const std::string& fault, int steps) {
  const TempFolder folder;
  return shell(
      fmt::format("CUDA_VISIBLE_DEVICES= timeout -k 5 400 {} -np {} -x LD_PRELOAD={} {} --inject kind=slow,{} "
                  "--threads 1 --train-samples 1024 --batch-size 64 --max-steps {} --eval-every 0 --print-freq 0 "
                  "--save-every never --output-dir {}",
                  DDP_MPIRUN, ranks, DDP_WAITING_CLOCK, DDP_PROGRAM, fault, steps, (folder / "run").string()));
}

TEST(Speed, ComputingAloneLimitsAnOrdinaryRun) {
  const Outcome outcome = slowed(2, "rank=all", 8);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, " this run: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "computing limits this run: 200.0 of 200.0 ms of a step (100 %)\n"), 1)
      << outcome.output;
  EXPECT_EQ(count(outcome.output,
                  "4 ranks, each with as many cores or GPUs as now, would take about 100.0 ms for a step of this "
                  "--batch-size: 2.0 times as fast\n"),
            1)
      << outcome.output;
}

// Of the 38 steps that count, the rank is slow in six: by 31.58 ms in the mean.
TEST(Speed, ASlowRankIsNamedAndOnlySlowsTheJob) {
  for (const int ranks : {2, 4}) {
    const Outcome outcome = slowed(ranks, "rank=1,step=35", 40);
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, " this run: "), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "rank 1 on "), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output,
                    " limits this run: it computes 31.6 ms longer than the others, 100 % of a step of 31.6 ms; "),
              1)
        << outcome.output;
  }
}

}  // namespace
}  // namespace ddp::testing
