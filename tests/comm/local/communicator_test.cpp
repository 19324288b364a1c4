#include "comm/add.h"
#include "core/error.h"
#include "core/stopwatch.h"
#include "tests/comm/rank_values.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

namespace ddp {
namespace {

class LocalCommunicators : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, LocalCommunicators, testing::Values(1, 2, 3, 4));

TEST_P(LocalCommunicators, SumEverySize) {
  run_ranks(GetParam(), [](Communicator& comm) {
    for (const int64_t count : {0, 1, 7, 1023, 1024, 5001}) {
      std::vector<float> v = values(comm.rank(), count);
      comm.wait(comm.all_reduce(DeviceSpan::of(v)));
      for (size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], sum_of_values(comm.size(), i)) << i << " of " << count;
    }
  });
}

TEST_P(LocalCommunicators, RecordTheTimesOfTheLastCollectives) {
  run_ranks(GetParam(), [](Communicator& comm) {
    std::vector<float> v(3);
    const auto sum = [&] {
      const Communicator::Sequence n = comm.all_reduce(DeviceSpan::of(v));
      comm.wait(n);
      return n;
    };
    const Communicator::Sequence before = sum();
    EXPECT_FALSE(comm.done_ns(before));
    comm.barrier();
    comm.record_done_times();
    comm.barrier();
    const int64_t begin = steady_ns();
    const Communicator::Sequence first = sum();
    EXPECT_GE(comm.done_ns(first).value_or(0), begin - 1'000'000'000);
    EXPECT_LE(comm.done_ns(first).value_or(begin * 2), steady_ns());
    EXPECT_FALSE(comm.done_ns(before));
    EXPECT_FALSE(comm.done_ns(first + Communicator::kDoneTimes));
    comm.barrier();
    for (Communicator::Sequence i = 0; i < Communicator::kDoneTimes; ++i) sum();
    EXPECT_FALSE(comm.done_ns(first));
    EXPECT_TRUE(comm.done_ns(first + 1));
    comm.barrier();
  });
}

TEST(Bf16, RoundsToNearestEven) {
  for (const auto& [from, to] :
       {std::pair{256.0f, 256.0f}, {257.0f, 256.0f}, {259.0f, 260.0f}, {257.5f, 258.0f}, {-259.0f, -260.0f}})
    EXPECT_EQ(float_of_bf16(bf16_of_float(from)), to) << from;
  EXPECT_EQ(float_of_bf16(bf16_of_float(std::numeric_limits<float>::max())), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float_of_bf16(bf16_of_float(std::bit_cast<float>(0x7f800001)))));
}

TEST_P(LocalCommunicators, SumBf16InF32AndRoundOnce) {
  run_ranks(GetParam(), [](Communicator& comm) {
    std::vector<uint16_t> v{bf16_of_float(comm.rank() == 0 ? 256.0f : 1.0f)};  // 256 + 1 is not a bf16
    comm.wait(comm.all_reduce({v.data(), 1, DType::bf16}));
    ASSERT_EQ(v[0], bf16_of_float(256.0f + static_cast<float>(comm.size() - 1)));
  });
}

TEST_P(LocalCommunicators, ManyAreOutstanding) {
  run_ranks(GetParam(), [](Communicator& comm) {
    std::vector<std::vector<float>> v;
    for (int k = 0; k < 60; ++k) v.push_back(values(comm.rank(), k));
    Communicator::Sequence last = 0;
    for (int k = 0; k < 60; ++k) {
      ASSERT_EQ(comm.all_reduce(DeviceSpan::of(v[k])), ++last);
      if ((k + comm.rank()) % 17 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    comm.wait(last);
    for (const auto& sum : v)
      for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], sum_of_values(comm.size(), i));
  });
}

TEST_P(LocalCommunicators, ReduceScatterThenAllGatherIsAnAllReduce) {
  run_ranks(GetParam(), [](Communicator& comm) {
    std::vector<float> v = values(comm.rank(), 300 * comm.size());
    comm.reduce_scatter(DeviceSpan::of(v));
    comm.wait(comm.all_gather(DeviceSpan::of(v)));
    for (size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], sum_of_values(comm.size(), i));
  });
}

TEST_P(LocalCommunicators, BroadcastFromEveryRoot) {
  run_ranks(GetParam(), [](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<float> v = values(comm.rank(), 100);
      comm.wait(comm.broadcast(DeviceSpan::of(v), root));
      ASSERT_EQ(v, values(root, 100));
    }
  });
}

TEST_P(LocalCommunicators, SumHostNumbers) {
  run_ranks(GetParam(), [](Communicator& comm) {
    std::vector<double> v{1.0, static_cast<double>(comm.rank())};
    comm.all_reduce_host(v);
    const int n = comm.size();
    ASSERT_EQ(v, (std::vector<double>{1.0 * n, 0.5 * n * (n - 1)}));
    comm.barrier();
  });
}

TEST_P(LocalCommunicators, SplitByColour) {
  run_ranks(GetParam(), [](Communicator& comm) {
    for (int again = 0; again < 3; ++again) {
      const auto part = comm.split(comm.rank() % 2);
      ASSERT_EQ(part->rank(), comm.rank() / 2);
      std::vector<float> v{static_cast<float>(comm.rank() + 1)};
      part->wait(part->all_reduce(DeviceSpan::of(v)));
      float expected = 0;
      for (int r = comm.rank() % 2; r < comm.size(); r += 2) expected += static_cast<float>(r + 1);
      ASSERT_EQ(v[0], expected);
    }
  });
}

TEST(LocalCommunicator, DisagreementIsAnErrorOnAllRanksThatNamesBothCalls) {
  const auto thrown = try_ranks(3, [](Communicator& comm) {
    std::vector<float> v(comm.rank() == 1 ? 6 : 5);
    comm.wait(comm.all_reduce(DeviceSpan::of(v)));
  });
  for (const std::exception_ptr& e : thrown) {
    ASSERT_TRUE(e);
    try {
      std::rethrow_exception(e);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("all_reduce of 5 f32"), text.npos) << text;
      EXPECT_NE(text.find("all_reduce of 6 f32"), text.npos) << text;
    }
  }
}

TEST(LocalCommunicator, DetectsOtherKindsOfDisagreement) {
  using Call = std::function<void(Communicator&, DeviceSpan)>;
  const Call sum = [](Communicator& c, DeviceSpan s) { c.wait(c.all_reduce(s)); };
  const Call sum_bf16 = [](Communicator& c, DeviceSpan s) { c.wait(c.all_reduce({s.data, s.count, DType::bf16})); };
  const Call gather = [](Communicator& c, DeviceSpan s) { c.wait(c.all_gather(s)); };
  const Call from_0 = [](Communicator& c, DeviceSpan s) { c.wait(c.broadcast(s, 0)); };
  const Call from_1 = [](Communicator& c, DeviceSpan s) { c.wait(c.broadcast(s, 1)); };
  for (const auto& [a, b] : {std::pair{sum, sum_bf16}, {sum, gather}, {from_0, from_1}}) {
    const auto thrown = try_ranks(2, [&](Communicator& comm) {
      std::vector<float> v(8);
      (comm.rank() == 0 ? a : b)(comm, DeviceSpan::of(v));
    });
    EXPECT_TRUE(thrown[0] && thrown[1]);
  }
}

TEST(LocalCommunicator, ExitOfARankEndsTheWaitOfTheOthers) {
  const auto thrown = try_ranks(3, [](Communicator& comm) {
    std::vector<float> v(5);
    if (comm.rank() == 2) return;
    comm.wait(comm.all_reduce(DeviceSpan::of(v)));
  });
  EXPECT_TRUE(thrown[0] && thrown[1] && !thrown[2]);
}

}  // namespace
}  // namespace ddp
