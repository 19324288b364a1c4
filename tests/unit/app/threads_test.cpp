#include "app/threads.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Threads, HeedTheLimitOfAContainer) {
  EXPECT_EQ(cores_within_limit(8, "max 100000"), 8);
  EXPECT_EQ(cores_within_limit(8, "200000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "150000 100000"), 2);
  EXPECT_EQ(cores_within_limit(8, "5000 100000"), 1);
  EXPECT_EQ(cores_within_limit(8, "99900000 100000"), 8);
  for (const char* none : {"", "nonsense", "100000", "0 0", "-1 100000"}) EXPECT_EQ(cores_within_limit(8, none), 8);
}

}  // namespace
}  // namespace ddp
