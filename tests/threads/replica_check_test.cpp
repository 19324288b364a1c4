#include "ddp/replica_check.h"

#include "core/error.h"
#include "tests/threads/ranks.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(ReplicaCheck, OneBitNamesTheTensorAndTheRanks) {
  const auto thrown = try_ranks(4, [](Communicator& comm) {
    const std::vector<float> weight(100, 0.25f);
    std::vector<float> bias(10, 1.0f);
    if (comm.rank() == 1 || comm.rank() == 3) bias[7] = std::nextafter(1.0f, 2.0f);
    const std::vector<NamedSpan> tensors{{"conv1.weight", weight}, {"conv1.bias", bias}};
    check_replicas(tensors, comm);
  });
  for (const std::exception_ptr& e : thrown) {
    ASSERT_TRUE(e);
    try {
      std::rethrow_exception(e);
    } catch (const SharedError& error) {
      EXPECT_EQ(error.code(), Exit::communication);
      EXPECT_STREQ(error.what(), "conv1.bias is not the same on all ranks: rank 1, 3 differ from rank 0");
    }
  }
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
