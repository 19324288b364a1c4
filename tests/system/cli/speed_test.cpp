// At its end, a run says what limits its speed. The tests of slow disks, links and ranks are beside the tests of these
// faults.
#include "tests/system/cli/program.h"

namespace ddp::testing {
namespace {

// A busy neighbour on the machine may be a cause, but not in three runs.
TEST(Speed, ComputingAloneLimitsAnOrdinaryRun) {
  Outcome outcome;
  for (int run = 0; run < 3; ++run) {
    const TempFolder folder;
    outcome =
        program(2, fmt::format("--model resnet18 --batch-size 16 --lr 0.01 --threads 1 --max-steps 8 --eval-every 0 "
                               "--save-every never --output-dir {}",
                               (folder / "run").string()));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    if (count(outcome.output, "computing limits this run: ") == 1) break;
  }
  EXPECT_EQ(count(outcome.output, " this run: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "computing limits this run: "), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "4 ranks, each with as many cores or GPUs as now, would take about "), 1)
      << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
