#include "app/cores.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Cores, RespectTheContainerLimit) {
  EXPECT_EQ(cores_within_limit(8, "max 100000"), 8);
  EXPECT_EQ(cores_within_limit(8, "200000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "150000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "5000 100000"), 1);
  EXPECT_EQ(cores_within_limit(8, "99900000 100000"), 8);
  for (const char* none : {"", "nonsense", "100000", "0 0", "-1 100000"}) EXPECT_EQ(cores_within_limit(8, none), 8);
}

TEST(Cores, AreSharedByRanks) {
  EXPECT_EQ(share_of_cores(0, 8, 3), 2);
  EXPECT_EQ(share_of_cores(0, 2, 3), 1);
  EXPECT_EQ(share_of_cores(5, 2, 3), 5);
}

TEST(Cores, ProcessAndHostHaveCores) {
  EXPECT_FALSE(cores_of_process().empty());
  EXPECT_FALSE(cores_of_host().empty());
}

TEST(Cores, ParseAndPrintKernelLists) {
  EXPECT_EQ(parse_list("0-2,5,7-8\n"), (std::vector<int>{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(parse_list("3"), std::vector<int>{3});
  EXPECT_TRUE(parse_list("").empty());
  EXPECT_EQ(list_of({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(list_of({}), "");
}

}  // namespace
}  // namespace ddp
