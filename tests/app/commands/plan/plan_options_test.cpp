#include "app/commands/plan/plan_options.h"

#include "core/error.h"
#include "tests/app/options/option_lines.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

PlanOptions planned(const std::string& line) {
  std::optional<std::string> answer;
  return parse_plan_options(words(line), answer);
}

TEST(PlanOptions, AreRead) {
  const PlanOptions options = planned(
      "--profile runs/a --world 1024 --latency-us 5 --bandwidth-gbs 25 --ranks-per-host 8 --host-latency-us 1 "
      "--host-bandwidth-gbs 200 --batch-per-rank 32 --allreduce shm --bucket-cap-mb 4 --host-samples-per-second 1000 "
      "--simulate --svg a.svg");
  EXPECT_EQ(options.profile, "runs/a");
  EXPECT_EQ(options.world, 1024);
  EXPECT_EQ(options.latency_us, 5);
  EXPECT_EQ(options.bandwidth_gbs, 25);
  EXPECT_EQ(options.ranks_per_host, 8);
  EXPECT_EQ(options.host_latency_us, 1);
  EXPECT_EQ(options.host_bandwidth_gbs, 200);
  EXPECT_EQ(options.batch_per_rank, 32);
  EXPECT_EQ(options.allreduce, PlanOptions::AllreduceChoice::shm);
  EXPECT_EQ(options.bucket_cap_mb, 4);
  EXPECT_EQ(options.host_samples_per_second, 1000);
  EXPECT_TRUE(options.simulate);
  EXPECT_EQ(options.drawing, "a.svg");
  EXPECT_FALSE(planned("--profile a --world 2").latency_us);
}

TEST(PlanOptions, OfAnotherKindAreRefused) {
  for (const auto& [line, named] : std::vector<std::pair<const char*, const char*>>{
           {"--world 2", "--profile"},
           {"--profile a", "--world"},
           {"--profile a --world 0", "--world"},
           {"--profile a --world 65537", "--world"},
           {"--profile a --world 2 --ranks-per-host 0", "--ranks-per-host"},
           {"--profile a --world 2 --latency-us -1", "--latency-us"},
           {"--profile a --world 2 --bandwidth-gbs 0", "--bandwidth-gbs"},
           {"--profile a --world 2 --bandwidth-gbs nan", "--bandwidth-gbs"},
           {"--profile a --world 2 --batch-size 8 --batch-per-rank 4", "--batch-size"},
           {"--profile a --world 2 --allreduce mpi", "--allreduce"},
           {"--profile a --world 2 --svg a.png", ".svg"},
           {"--profile a --world 2 more", "not expected: more"}}) {
    SCOPED_TRACE(line);
    expect_error(Exit::usage, {named}, [&] { planned(line); });
  }
}

}  // namespace
}  // namespace ddp
