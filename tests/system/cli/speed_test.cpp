// At its end, a run says what limits its speed. Here the cause is known.
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

Outcome twelve_steps(const std::string& more) {
  const TempFolder folder;
  return program(2, fmt::format("--max-steps 12 --eval-every 0 --save-every never --output-dir {} {}",
                                (folder / "run").string(), more));
}

// A busy neighbour on the machine may be a cause, but not in three runs.
TEST(Speed, ComputingAloneLimitsAnOrdinaryRun) {
  Outcome outcome;
  for (int run = 0; run < 3; ++run) {
    outcome = twelve_steps("--model resnet18 --batch-size 16 --lr 0.01 --threads 1");
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    if (count(outcome.output, " this run: ") == 1) break;
  }
  EXPECT_EQ(count(outcome.output, " this run: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "computing limits this run: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "4 ranks, each with as many cores or GPUs as now, would take about "), 1)
      << outcome.output;
}

// The injected fault computes 200 ms longer.
TEST(Speed, SlowRankLimitsTheRun) {
  const Outcome outcome = twelve_steps("--inject kind=slow,rank=1 --threads 1");
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_NEAR(number_after(outcome.output, "rank 1 on [^ ]+ limits this run: it computes "), 200, 30) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
