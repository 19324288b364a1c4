#include "app/run/kept_buckets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

const StepCosts kCosts{{0.1, 1.0 / 3, 2}, 2.5, {0.01, 7e-5}, 1e-300};

TEST(KeptBuckets, AreReadAsWritten) {
  const std::vector<int64_t> counts{4, 5, 6};
  const std::string text = kept_text(plan_buckets_at(counts, 2, 9, std::vector<ParameterId>{0, 2}), kCosts);
  const auto kept = kept_buckets_from(text, 3);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->begins, (std::vector<ParameterId>{0, 2}));
  EXPECT_EQ(kept->costs.ready_ms, kCosts.ready_ms);
  EXPECT_EQ(kept->costs.compute_ms, kCosts.compute_ms);
  EXPECT_EQ(kept->costs.link.latency_ms, kCosts.link.latency_ms);
  EXPECT_EQ(kept->costs.link.ms_per_mib, kCosts.link.ms_per_mib);
  EXPECT_EQ(kept->costs.bucket_ms, kCosts.bucket_ms);
  EXPECT_FALSE(kept_buckets_from(text, 4).has_value()) << "of another network";
  EXPECT_FALSE(kept_buckets_from(text, 2).has_value());
  EXPECT_FALSE(kept_buckets_from(text.substr(1), 3).has_value());
}

// Each text has one fault.
TEST(KeptBuckets, AreCheckedBeforeTheyAreBelieved) {
  const auto text = [](const std::string& begins, const std::string& ready, const std::string& bucket = "0.1") {
    return "{\"begins\":" + begins + ",\"ready_ms\":" + ready +
           ",\"compute_ms\":3,\"latency_ms\":0.1,\"ms_per_mib\":1,\"bucket_ms\":" + bucket + "}";
  };
  ASSERT_TRUE(kept_buckets_from(text("[0,1,2]", "[1,2,3]"), 3).has_value());
  for (const char* begins : {"[]", "[1]", "[0,0]", "[0,2,1]", "[0,3]", "[0,-1]", "[0,1.5]", "[0,4294967297]", "[0,[1]]",
                             "[0,\"1\"]", "0", "{\"0\":1}", "null"})
    EXPECT_FALSE(kept_buckets_from(text(begins, "[1,2,3]"), 3).has_value()) << begins;
  for (const char* ready :
       {"[]", "[1,2]", "[1,2,3,4]", "[2,1,3]", "[-1,2,3]", "[1,2,1e999]", "[1,2,4]", "[1,2,null]", "[1,2,\"3\"]"})
    EXPECT_FALSE(kept_buckets_from(text("[0]", ready), 3).has_value()) << ready;
  for (const char* bucket : {"-1", "1e10", "null", "\"1\"", "[1]"})
    EXPECT_FALSE(kept_buckets_from(text("[0]", "[1,2,3]", bucket), 3).has_value()) << bucket;
  for (const char* other : {"", "[]", "null", "7", "{}", "[[[[[[[[[[[["})
    EXPECT_FALSE(kept_buckets_from(other, 3).has_value()) << other;
}

}  // namespace
}  // namespace ddp
