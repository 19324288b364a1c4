#include "ddp/replica_check.h"

#include "core/error.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace ddp {
namespace {

TEST(ReplicaCheck, EqualReplicasPass) {
  run_ranks(4, [](Communicator& comm) {
    const std::vector<float> weight(100, 0.25f), bias;
    const std::vector<NamedSpan> tensors{{"conv1.weight", weight}, {"conv1.bias", bias}};
    check_replicas(tensors, comm);
    check_same_on_all_ranks(0xfedcba9876543210, "bucket plan", comm);
  });
}

// The message that all ranks throw if one bit of conv1.bias differs on the ranks `differing`.
std::string error_message(int world, std::vector<int> differing) {
  const auto thrown = try_ranks(world, [&](Communicator& comm) {
    const std::vector<float> weight(100, 0.25f);
    std::vector<float> bias(10, 1.0f);
    if (std::ranges::count(differing, comm.rank())) bias[7] = std::nextafter(1.0f, 2.0f);
    const std::vector<NamedSpan> tensors{{"conv1.weight", weight}, {"conv1.bias", bias}};
    check_replicas(tensors, comm);
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

TEST(ReplicaCheck, OneBitNamesTheTensorAndTheMinorityRanks) {
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
