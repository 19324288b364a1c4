// Collectives on device memory. Values are small integers, so sums are exact in any order.
#include "tests/gpu/ranks_fixture.h"
#include "tests/values.h"

#include <functional>

namespace ddp::testing {
namespace {

int value(int rank, int64_t i, int salt) { return static_cast<int>((i * 7 + rank * 3 + salt) % 11); }

class CommOnGpu : public ::testing::TestWithParam<Transport> {
 protected:
  RankOnGpu self{GetParam()};
  DType dtype = DType::f32;
  Device& device = *self.device;
  Communicator& comm = *self.communicator;
  const int rank = comm.rank(), size = comm.size();
  Memory& memory = comm.memory() ? *comm.memory() : device;

  // Runs the test for f32 and bf16 over one communicator, because creating one takes long.
  void with_each_type(const std::function<void()>& test) {
    for (const DType type : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(type == DType::f32 ? "f32" : "bf16");
      dtype = type;
      test();
    }
  }

  void put(const Buffer& buffer, const Values& values) {
    if (dtype == DType::f32) {
      device.upload(buffer.data(), values.data(), values.size() * sizeof(float));
      return;
    }
    std::vector<uint16_t> narrow;
    for (const float v : values) narrow.push_back(bf16_of_float(v));
    device.upload(buffer.data(), narrow.data(), narrow.size() * sizeof(uint16_t));
  }
  Values get(const Buffer& buffer, int64_t count) {
    Values values(count);
    std::vector<uint16_t> narrow(count);
    void* const to = dtype == DType::f32 ? static_cast<void*>(values.data()) : narrow.data();
    device.download(to, buffer.data(), count * size_of(dtype));
    device.synchronize();
    if (dtype == DType::bf16)
      for (int64_t i = 0; i < count; ++i) values[i] = float_of_bf16(narrow[i]);
    return values;
  }

  Buffer buffer(int64_t count) { return {memory, static_cast<size_t>(count) * size_of(dtype)}; }
  DeviceSpan span(const Buffer& b, int64_t count) const { return {b.data(), count, dtype}; }

  static Values of_rank(int r, int64_t count, int salt) {
    Values values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(value(r, i, salt));
    return values;
  }
  Values sums(int64_t count, int salt) const {
    Values values(count, 0.0f);
    for (int r = 0; r < size; ++r)
      for (int64_t i = 0; i < count; ++i) values[i] += static_cast<float>(value(r, i, salt));
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(, CommOnGpu, ::testing::Values(Transport::nccl, Transport::mpi),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(CommOnGpu, SumsEverySize) {
  with_each_type([&] {
    for (const int64_t count : {0, 1, 2, 7, 1000, 65537, 1000003}) {
      const Buffer b = buffer(count);
      put(b, of_rank(rank, count, 1));
      comm.wait(comm.all_reduce(span(b, count)));
      ASSERT_EQ(get(b, count), sums(count, 1)) << count;
    }
  });
}

TEST_P(CommOnGpu, ReduceScatterLeavesTheSumInThisRanksPart) {
  with_each_type([&] {
    for (const int64_t part : {0, 1, 7, 20003}) {
      const int64_t count = part * size;
      const Buffer b = buffer(count);
      put(b, of_rank(rank, count, 2));
      comm.wait(comm.reduce_scatter(span(b, count)));
      const Values actual = get(b, count), expected = sums(count, 2);
      for (int64_t i = rank * part; i < (rank + 1) * part; ++i)
        ASSERT_EQ(actual[i], expected[i]) << i << " of " << count;
    }
  });
}

TEST_P(CommOnGpu, AllGatherFillsTheOthersParts) {
  with_each_type([&] {
    for (const int64_t part : {0, 1, 7, 20003}) {
      const int64_t count = part * size;
      const Buffer b = buffer(count);
      Values mine = of_rank(0, count, 3);
      for (int64_t i = 0; i < count; ++i)
        if (i < rank * part || i >= (rank + 1) * part) mine[i] = -1;
      put(b, mine);
      comm.wait(comm.all_gather(span(b, count)));
      ASSERT_EQ(get(b, count), of_rank(0, count, 3)) << count;
    }
  });
}

TEST_P(CommOnGpu, BroadcastsFromEveryRoot) {
  with_each_type([&] {
    for (int root = 0; root < size; ++root)
      for (const int64_t count : {0, 1, 7, 100001}) {
        const Buffer b = buffer(count);
        put(b, of_rank(rank, count, 4));
        comm.wait(comm.broadcast(span(b, count), root));
        ASSERT_EQ(get(b, count), of_rank(root, count, 4)) << count << " from " << root;
      }
  });
}

TEST_P(CommOnGpu, CountsManyOutstandingCollectives) {
  with_each_type([&] {
    constexpr int kMany = 20;
    const auto before = comm.completed();
    std::vector<Buffer> buffers;
    for (int k = 0; k < kMany; ++k) {
      buffers.push_back(buffer(k * 131));
      put(buffers[k], of_rank(rank, k * 131, k));
    }
    Communicator::Sequence last = 0;
    for (int k = 0; k < kMany; ++k) {
      const auto n = comm.all_reduce(span(buffers[k], k * 131));
      ASSERT_TRUE(k == 0 || n == last + 1) << n;
      last = n;
    }
    comm.wait(last);
    for (int k = 0; k < kMany; ++k) ASSERT_EQ(get(buffers[k], k * 131), sums(k * 131, k)) << "collective " << k;
    EXPECT_EQ(comm.completed() - before, static_cast<Communicator::Sequence>(kMany));
  });
}

TEST_P(CommOnGpu, SumsAreOrderedAfterEarlierWorkAndBeforeLaterWork) {
  with_each_type([&] {
    const int64_t count = 500000;
    const Buffer b = buffer(count);
    for (int round = 0; round < 3; ++round) {
      put(b, of_rank(rank, count, round));
      comm.wait(comm.all_reduce(span(b, count)));
      ASSERT_EQ(get(b, count), sums(count, round)) << round;
      device.zero(b.data(), b.bytes());
    }
  });
}

TEST_P(CommOnGpu, CapturedSumsAreReplayed) {
  if (!comm.capturable()) GTEST_SKIP() << "what is staged through the host is not recorded";
  with_each_type([&] {
    const int64_t count = 1001;
    const Buffer b = buffer(count);
    const auto graphs = device.graph_cache();
    const auto before = comm.completed();
    for (int round = 0; round < 5; ++round) {
      put(b, of_rank(rank, count, round));
      graphs->run({.kind = 7, .size = count}, [&] { comm.wait(comm.all_reduce(span(b, count))); });
      ASSERT_EQ(get(b, count), sums(count, round)) << "round " << round;
    }
    EXPECT_EQ(comm.completed() - before, 5u);
  });
}

TEST_P(CommOnGpu, HostSumsRunBesideCollectives) {
  with_each_type([&] {
    const int64_t count = 70001;
    const Buffer b = buffer(count);
    put(b, of_rank(rank, count, 5));
    const auto n = comm.all_reduce(span(b, count));
    std::vector<double> numbers{1.0, 0.5 * rank};
    comm.all_reduce_host(numbers);
    comm.wait(n);
    EXPECT_EQ(numbers, (std::vector<double>{1.0 * size, 0.25 * size * (size - 1)}));
    EXPECT_EQ(get(b, count), sums(count, 5));
    comm.barrier();
  });
}

}  // namespace
}  // namespace ddp::testing
