#include "ddp/replica_check.h"

#include "core/error.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ddp {
namespace {

TEST(ReplicaCheck, EqualHashesPass) {
  run_ranks(4, [](Communicator& comm) {
    const NamedHash mine[] = {{"conv1.weight", 0}, {"conv1.bias", ~uint64_t{0}}};
    check_same_on_all_ranks(mine, comm);
    check_same_on_all_ranks(0xfedcba9876543210, "bucket plan", comm);
  });
}

// The message that all ranks throw if the hash of conv1.bias differs on the ranks `differing`.
std::string error_message(int world, std::vector<int> differing) {
  const auto thrown = try_ranks(world, [&](Communicator& comm) {
    const uint64_t bias = std::ranges::count(differing, comm.rank()) ? 6 : 7;
    const NamedHash mine[] = {{"conv1.weight", 5}, {"conv1.bias", bias}};
    check_same_on_all_ranks(mine, comm);
  });
  std::set<std::string> texts;
  for (const std::exception_ptr& e : thrown) try {
      if (e) std::rethrow_exception(e);
      texts.insert("");
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.code(), Exit::communication);
      texts.insert(error.what());
    }
  EXPECT_EQ(texts.size(), 1u);
  return *texts.begin();
}

TEST(ReplicaCheck, OneHashNamesTheTensorAndTheMinorityRanks) {
  const std::string head = "conv1.bias is not the same on all ranks";
  EXPECT_TRUE(error_message(5, {1, 3}).starts_with(head + ": rank 1, 3 differ from the others (hashes by rank: "));
  EXPECT_TRUE(error_message(3, {0}).starts_with(head + ": rank 0 differs from the others (hashes by rank: "));
  EXPECT_TRUE(error_message(2, {1}).starts_with(head + " (hashes by rank: "));
  EXPECT_TRUE(error_message(4, {1, 3}).starts_with(head + " (hashes by rank: "));
}

TEST(ReplicaCheck, EveryBitOfAHashCounts) {
  for (const int bit : {0, 31, 32, 52, 63}) {
    const auto thrown = try_ranks(2, [&](Communicator& comm) {
      check_same_on_all_ranks(0x0123456789abcdef ^ (uint64_t{static_cast<unsigned>(comm.rank())} << bit), "plan", comm);
    });
    EXPECT_TRUE(thrown[0] && thrown[1]) << bit;
  }
}

}  // namespace
}  // namespace ddp
