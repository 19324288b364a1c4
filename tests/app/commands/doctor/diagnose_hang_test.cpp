#include "app/commands/doctor/check_runner.h"
#include "tests/app/commands/doctor/fakes.h"

#include <string>
#include <vector>

namespace ddp::doctor {
namespace {

TEST(DoctorHang, NamesTheStoppedOrSlowestRank) {
  std::vector<RankState> ranks{{"a", 11, 9, 0.1, 0}, {"a", 12, 9, 0.1, 0}, {"b", 0, 9, 0.4, 0.3}};
  EXPECT_EQ(diagnose_hang("clocks", 20, ranks).problem, "the check \"clocks\" has not ended within 20 s");
  ranks[2].progress = 8;
  EXPECT_EQ(diagnose_hang("clocks", 20, ranks).problem,
            "the check \"clocks\" has not ended within 20 s: it waits for rank 2 on b");
  ranks[1].silent_seconds = 19;
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"rank 1 on a (pid 12) is stopped"},
              "kill -CONT 12", Exit::communication);
}

TEST(DoctorHang, NamesAStoppedRankOfAReachableHost) {
  std::vector<RankState> ranks{{"a", 11, 9, 0.1, 0}, {"b", 0, 9, 0.4, 0.3}, {"b", 0, 9, 19, 0.3}};
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"rank 2 on b is stopped"},
              "ssh b pkill -CONT ddp_train", Exit::communication);
  ranks[1] = ranks[2] = {"b", 0, 9, 19.1, 19};
  expect_only({diagnose_hang("clocks", 20, ranks)}, Verdict::fault, {"no news from host b"},
              kHint + std::string("ping b"), Exit::communication);
}

}  // namespace
}  // namespace ddp::doctor
