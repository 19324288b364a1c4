// What a job does when a rank stops or dies in the middle of training.
#include "core/error.h"
#include "tests/cli/program.h"

#include <string>

namespace ddp::testing {
namespace {

// Starts two ranks that train for long, sends the signal to the second when steps have been done, and waits for the
// end.
Outcome signalled(const Folder& folder, const std::string& signal) {
  const std::string run = (folder / "run").string();
  return shell(
      fmt::format("( {0} -np 2 {1} --epochs 100000 --eval-every 0 --print-freq 10 --step-timeout 3 "
                  "--output-dir {2} & job=$!; "
                  "for i in $(seq 300); do [ -s {2}/metrics.jsonl ] && break; sleep 0.1; done; "
                  "kill -{3} $(cut -d' ' -f2 /proc/$job/task/$job/children); "
                  "for i in $(seq 200); do kill -0 $job 2>/dev/null || break; sleep 0.1; done; "
                  "kill -KILL $job 2>/dev/null && echo had to be killed; wait $job )",
                  DDP_MPIRUN, DDP_PROGRAM, run, signal));
}

TEST(Fault, AStoppedRankEndsTheJobWithStepAndBucket) {
  const Folder folder;
  const Outcome outcome = signalled(folder, "STOP");
  EXPECT_EQ(outcome.code, static_cast<int>(Exit::communication)) << outcome.output;
  EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "had to be killed"), 0) << outcome.output;
  for (const char* part : {"[rank 0] error: on ", ": step ", "has not ended", "(bucket ", "--step-timeout"})
    EXPECT_EQ(count(outcome.output, part), 1) << part << "\n" << outcome.output;
}

TEST(Fault, AKilledRankEndsTheJob) {
  const Folder folder;
  const Outcome outcome = signalled(folder, "KILL");
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "had to be killed"), 0) << outcome.output;
}

}  // namespace
}  // namespace ddp::testing
