#include "app/commands/plan/scaling_table.h"

#include "tests/ddp/sample_profile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

TEST(ScalingTable, HasALineForEachNumberOfRanks) {
  RunProfile profile = testing::sample_profile();
  profile.noise_scale = 6;
  const Workload workload{.batch_per_rank = 4, .caps = BucketCaps{.cap_mb = 1}};
  const Cluster two{.ranks = 2, .network = {.ms_per_byte = 4.0 / (1 << 20)}, .allreduce = Cluster::Allreduce::shm};
  const std::vector<PlannedScaling> rows{{.formula = scaling_on(profile, {}, workload), .simulated_ms = 12},
                                         {.formula = scaling_on(profile, two, workload)}};
  EXPECT_EQ(scaling_table(rows, profile, true),
            "ranks  hosts  batch  step ms  compute  slow ranks  exposed comm  data  samples/s  efficiency  speed-up  "
            "simulated ms\n"
            "    1      1      4    12.00    12.00        0.00          0.00  0.00        333     100.0 %       1.0  "
            "       12.00\n"
            "    2      2      8    16.00    12.00        0.00          4.00  0.00        500      75.0 %       1.1  "
            "           -\n");
  const std::string text = describe_scaling(rows, profile, two, workload);
  EXPECT_NE(
      text.find("2 ranks: 67 % of 12.00 ms of communication are hidden; 3 buckets, in a ring between the hosts\n"),
      text.npos)
      << text;
  EXPECT_NE(text.find("gradient noise scale: about 6 samples"), text.npos) << text;
  EXPECT_NE(text.find("the batch is above it from 2 ranks on\n"), text.npos) << text;
  EXPECT_NE(text.find("but for 2.00 ms of a step"), text.npos) << text;
  EXPECT_EQ(describe_profile(profile),
            "net (786432 parameters), fp32 on cpu: profile of 1 rank on 1 host, global batch 4\n");
  profile.noise_scale.reset();
  EXPECT_EQ(scaling_table(rows, profile, false).find("1.1"), std::string::npos);
  EXPECT_NE(describe_scaling(rows, profile, two, workload).find("noise scale is not known"), std::string::npos);
}

}  // namespace
}  // namespace ddp
