// Ranks and launchers that stand still, as under a debugger, on a suspended machine or on a busy one.
#include "core/error.h"
#include "tests/system/cli/program.h"

#include <filesystem>
#include <string>

namespace ddp::testing {
namespace {

// Starts two ranks on a long run, stops the second one after some steps, and waits for the end of the job.
TEST(Fault, ErrorNamesAStoppedRankAndItsStep) {
  const TempFolder folder;
  const std::string run = (folder / "run").string();
  const Outcome outcome =
      shell(fmt::format("( {0} -np 2 {1} --epochs 100000 --eval-every 0 --print-freq 10 --step-timeout 6 "
                        "--output-dir {2} & job=$!; "
                        "for i in $(seq 3000); do [ -s {2}/metrics.jsonl ] && break; sleep 0.1; done; "
                        "kill -STOP $(cut -d' ' -f2 /proc/$job/task/$job/children); "
                        "for i in $(seq 3000); do kill -0 $job 2>/dev/null || break; sleep 0.1; done; "
                        "kill -KILL $job 2>/dev/null && echo had to be killed; wait $job )",
                        DDP_MPIRUN, DDP_PROGRAM, run));
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::communication)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "had to be killed"), 0) << outcome.output;
  for (const char* part :
       {"[rank 0] error: on ", ": rank 1 on host ", " is stopped: no sign of life for ", "(in step "})
    EXPECT_EQ(count(outcome.output, part), 1) << part << "\n" << outcome.output;
  EXPECT_TRUE(std::filesystem::exists(folder / "run" / "flight" / "rank-0.json"));
}

TEST(Fault, LauncherWithoutAProcessorAtTheEndSeesASuccessfulRun) {
  const TempFolder folder;
  const Outcome outcome =
      shell(fmt::format("timeout -k 5 400 {} -np 1 -x LD_PRELOAD={} {} --model mlp --train-samples 256 --max-steps 1 "
                        "--eval-every 0 --output-dir {}",
                        DDP_MPIRUN, DDP_FAILING_LAUNCHER, DDP_PROGRAM, (folder / "run").string()));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
