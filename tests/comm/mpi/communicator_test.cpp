// The communicator over MPI, with ranks as processes. Values are small integers, so sums are exact in any order.
#include "core/stopwatch.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "tests/comm/int8_sums.h"
#include "tests/comm/numbers.h"
#include "tests/mpi_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <thread>
#include <vector>

namespace ddp {
namespace {

int value(int rank, int64_t i, int salt) { return static_cast<int>((i * 7 + rank * 3 + salt) % 11); }

int sum_of_values(int ranks, int64_t i, int salt) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i, salt);
  return sum;
}

// Numbers of this rank.
Numbers numbers_of(DType dtype, int64_t count, int rank, int salt, Memory& memory = Numbers::heap()) {
  Numbers numbers(dtype, count, memory);
  for (int64_t i = 0; i < count; ++i) numbers.set(i, static_cast<float>(value(rank, i, salt)));
  return numbers;
}

struct Case {
  const char* name;
  Allreduce allreduce;
  DType dtype;
  int (*host)(int rank) = nullptr;  // null: the hosts as they are
};

int mixed(int rank) { return (rank + 1) / 2 % 2; }  // 0 1 1 0: lane 1 has its hosts in another order than its ranks
int three(int rank) { return std::min(rank, 2); }
int unequal(int rank) { return rank == 1 ? 0 : 1; }

class EveryKind : public testing::TestWithParam<Case> {
 protected:
  const int rank = session().rank(), size = session().size();
  const DType dtype = GetParam().dtype;
  std::unique_ptr<Communicator> comm =
      session().world(GetParam().allreduce, GetParam().host ? std::optional(GetParam().host(rank)) : std::nullopt);
  // Ordinary memory, and that of the communicator.
  std::vector<Memory*> memories() {
    return comm->memory() ? std::vector<Memory*>{&Numbers::heap(), comm->memory()}
                          : std::vector<Memory*>{&Numbers::heap()};
  }
};

INSTANTIATE_TEST_SUITE_P(
    , EveryKind,
    testing::Values(Case{"shm_f32", Allreduce::shm, DType::f32}, Case{"shm_bf16", Allreduce::shm, DType::bf16},
                    Case{"mixed_hosts_f32", Allreduce::shm, DType::f32, mixed},
                    Case{"mixed_hosts_bf16", Allreduce::shm, DType::bf16, mixed},
                    Case{"unequal_hosts", Allreduce::shm, DType::f32, unequal},
                    Case{"ring_f32", Allreduce::ring, DType::f32}, Case{"ring_bf16", Allreduce::ring, DType::bf16},
                    Case{"mpi_f32", Allreduce::mpi, DType::f32}, Case{"mpi_bf16", Allreduce::mpi, DType::bf16}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(EveryKind, SumsEverySize) {
  for (Memory* const memory : memories())
    for (const int64_t count : {0, 1, 2, 7, 1000, 65537, 1000003}) {
      Numbers numbers = numbers_of(dtype, count, rank, 1, *memory);
      comm->wait(comm->all_reduce(numbers.span()));
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(numbers.at(i), static_cast<float>(sum_of_values(size, i, 1))) << i << " of " << count;
    }
}

TEST_P(EveryKind, ReduceScatterLeavesTheSumInThisRanksPart) {
  for (Memory* const memory : memories())
    for (const int64_t part : {0, 1, 7, 200003}) {
      Numbers numbers = numbers_of(dtype, part * size, rank, 2, *memory);
      comm->wait(comm->reduce_scatter(numbers.span()));
      for (int64_t i = rank * part; i < (rank + 1) * part; ++i)
        ASSERT_EQ(numbers.at(i), static_cast<float>(sum_of_values(size, i, 2))) << i << " of " << part * size;
    }
}

TEST_P(EveryKind, AllGatherFillsTheOthersParts) {
  for (Memory* const memory : memories())
    for (const int64_t part : {0, 1, 7, 200003}) {
      Numbers numbers(dtype, part * size, *memory);
      for (int64_t i = rank * part; i < (rank + 1) * part; ++i) numbers.set(i, static_cast<float>(value(0, i, 3)));
      comm->wait(comm->all_gather(numbers.span()));
      for (int64_t i = 0; i < part * size; ++i)
        ASSERT_EQ(numbers.at(i), static_cast<float>(value(0, i, 3))) << i << " of " << part * size;
    }
}

TEST_P(EveryKind, ReduceScatterThenAllGatherIsAnAllReduce) {
  const int64_t count = 50000 * size;
  Numbers numbers = numbers_of(dtype, count, rank, 4, *memories().back());
  comm->reduce_scatter(numbers.span());
  comm->wait(comm->all_gather(numbers.span()));
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(numbers.at(i), static_cast<float>(sum_of_values(size, i, 4))) << i;
}

class Int8Kind : public EveryKind {};
INSTANTIATE_TEST_SUITE_P(, Int8Kind,
                         testing::Values(Case{"shm", Allreduce::shm, DType::f32},
                                         Case{"mixed_hosts", Allreduce::shm, DType::f32, mixed},
                                         Case{"unequal_hosts", Allreduce::shm, DType::f32, unequal},
                                         Case{"three_hosts", Allreduce::shm, DType::f32, three},
                                         Case{"ring", Allreduce::ring, DType::f32}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(Int8Kind, LosesNoValue) {
  ASSERT_TRUE(comm->sums_in_int8());
  for (Memory* const memory : memories()) {
    expect_int8_all_reduces(*comm, *memory);
    expect_int8_reduce_scatters(*comm, *memory);
    expect_int8_shows_nan(*comm, *memory);
  }
}

// Beside ordinary sums, as in a step, on all ranks with the same bits.
TEST_P(Int8Kind, ManyAreOutstanding) {
  constexpr int kMany = 24;
  const int64_t count = 30'011;
  const Buffer flat(*comm->memory(), bytes_of_floats(kMany * count));
  std::vector<float> residual(kMany * count);
  for (int64_t i = 0; i < kMany * count; ++i) flat.as<float>()[i] = real_value(rank, 0, i);
  Communicator::Sequence last = 0;
  for (int k = 0; k < kMany; ++k) {
    float* const lost = residual.data() + k * count;
    const Residual of_span = k % 3 == 0 ? Residual() : Residual{lost, lost};
    last = comm->all_reduce({flat.as<float>() + k * count, count, DType::f32, of_span});
    if ((k + rank) % 3 == 0) comm->progress();
  }
  comm->wait(last);
  Hash hash;
  for (int64_t i = 0; i < kMany * count; ++i) {
    double exact = 0;
    for (int r = 0; r < size; ++r) exact += real_value(r, 0, i);
    ASSERT_NEAR(flat.as<float>()[i], exact, 2.0 * size / 127) << i;
    hash.add(std::bit_cast<uint32_t>(flat.as<float>()[i]));
  }
  EXPECT_NO_THROW(check_same_on_all_ranks(hash.value(), "sums", *comm));
}

TEST_P(EveryKind, BroadcastsFromEveryRoot) {
  for (int root = 0; root < size; ++root)
    for (const int64_t count : {0, 1, 7, 300001}) {
      Numbers numbers = numbers_of(dtype, count, rank, 5);
      comm->wait(comm->broadcast(numbers.span(), root));
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(numbers.at(i), static_cast<float>(value(root, i, 5))) << i << " of " << count;
    }
}

TEST_P(EveryKind, ManyAreOutstandingWithDifferentPollTimes) {
  constexpr int kMany = 150;
  std::vector<Numbers> numbers;
  for (int k = 0; k < kMany; ++k) numbers.push_back(numbers_of(dtype, k * 131 % 5000, rank, k));
  std::vector<Communicator::Sequence> started;
  for (int k = 0; k < kMany; ++k) {
    started.push_back(comm->all_reduce(numbers[k].span()));
    if ((k + rank) % 3 == 0) comm->progress();
    if ((k + 5 * rank) % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (k == kMany / 2) {  // not part of the sequence
      std::vector<double> one{1.0, rank * 1.0};
      comm->all_reduce_host(one);
      ASSERT_EQ(one[0], size);
    }
  }
  for (int k = 0; k < kMany; ++k) {
    ASSERT_EQ(started[k], static_cast<Communicator::Sequence>(k + 1));
    if (k % 10 == 9) comm->wait(started[k]);
    if (k % 10 != 9) continue;
    for (int j = k - 9; j <= k; ++j)
      for (int64_t i = 0; i < j * 131 % 5000; ++i)
        ASSERT_EQ(numbers[j].at(i), static_cast<float>(sum_of_values(size, i, j))) << "collective " << j;
  }
}

TEST_P(EveryKind, AllRanksGetTheSameBits) {
  std::vector<float> thirds(100003);
  for (size_t i = 0; i < thirds.size(); ++i) thirds[i] = 1.0f / static_cast<float>(3 + i + rank);
  comm->wait(comm->all_reduce(DeviceSpan::of(thirds)));
  Hash hash;
  for (const float value : thirds) hash.add(std::bit_cast<uint32_t>(value));
  EXPECT_NO_THROW(check_same_on_all_ranks(hash.value(), "thirds", *comm));
}

// The sum of an element depends on its place in the communicator's memory, not on the span that it is summed in.
class OrderedKind : public EveryKind {};  // MPI's order of the terms depends on the span

INSTANTIATE_TEST_SUITE_P(, OrderedKind,
                         testing::Values(Case{"shm", Allreduce::shm, DType::f32},
                                         Case{"three_hosts", Allreduce::shm, DType::f32, three},
                                         Case{"mixed_hosts", Allreduce::shm, DType::bf16, mixed},
                                         Case{"ring", Allreduce::ring, DType::f32}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(OrderedKind, BucketEdgesChangeNoBits) {
  constexpr int64_t kCount = 100003;
  const auto summed = [&](const std::vector<int64_t>& edges) {
    const Buffer flat(*comm->memory(), kCount * size_of(dtype));
    const auto width = static_cast<int64_t>(size_of(dtype));
    for (int64_t i = 0; i < kCount; ++i) {
      const float term = 1.0f / static_cast<float>(3 + i + rank);
      if (dtype == DType::f32)
        flat.as<float>()[i] = term;
      else
        flat.as<uint16_t>()[i] = bf16_of_float(term);
    }
    for (size_t b = 0; b + 1 < edges.size(); ++b)
      comm->all_reduce({flat.as<char>() + edges[b] * width, edges[b + 1] - edges[b], dtype});
    const auto last = comm->all_reduce({flat.as<char>() + edges.back() * width, kCount - edges.back(), dtype});
    comm->wait(last);
    return std::vector<char>(flat.as<char>(), flat.as<char>() + kCount * width);
  };
  const auto whole = summed({0});
  EXPECT_TRUE(whole == summed({0, 5, 4096, 70001}));
  EXPECT_TRUE(whole == summed({0, 50001, 100000, 100003}));
}

TEST_P(EveryKind, FinishesWithoutPolling) {
  Numbers numbers = numbers_of(dtype, 100000, rank, 6);
  const auto n = comm->all_reduce(numbers.span());
  while (comm->completed() < n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comm->wait(n);
  for (int64_t i = 0; i < 100000; ++i) ASSERT_EQ(numbers.at(i), static_cast<float>(sum_of_values(size, i, 6)));
}

TEST_P(EveryKind, SplitCommunicatorsWorkBesideTheWhole) {
  Numbers whole = numbers_of(dtype, 70001, rank, 7);
  const auto n = comm->all_reduce(whole.span());
  const auto part = comm->split(rank % 2);
  ASSERT_EQ(part->size(), (size + 1 - rank % 2) / 2);
  ASSERT_EQ(part->rank(), rank / 2);
  Numbers numbers(dtype, 1001);
  for (int64_t i = 0; i < 1001; ++i) numbers.set(i, static_cast<float>(rank + 1));
  part->wait(part->all_reduce(numbers.span()));
  int expected = 0;
  for (int r = rank % 2; r < size; r += 2) expected += r + 1;
  for (int64_t i = 0; i < 1001; ++i) ASSERT_EQ(numbers.at(i), static_cast<float>(expected));
  comm->wait(n);
  for (int64_t i = 0; i < 70001; ++i) ASSERT_EQ(whole.at(i), static_cast<float>(sum_of_values(size, i, 7)));
}

// The ranks are on one host, so they read one clock.
TEST_P(EveryKind, RecordsWhenCollectivesAreDone) {
  Numbers numbers = numbers_of(dtype, 1000, rank, 0);
  comm->wait(comm->all_reduce(numbers.span()));
  EXPECT_FALSE(comm->done_ns(1));
  comm->record_done_times();
  const int64_t begin = steady_ns();
  comm->barrier();
  const int64_t last_has_entered = steady_ns();  // or later
  comm->wait(comm->all_reduce(numbers.span()));
  comm->wait(comm->all_reduce(numbers.span()));
  const int64_t end = steady_ns();
  EXPECT_FALSE(comm->done_ns(1));
  EXPECT_FALSE(comm->done_ns(4));
  ASSERT_TRUE(comm->done_ns(2) && comm->done_ns(3));
  EXPECT_GE(*comm->done_ns(2), begin);
  EXPECT_LE(*comm->done_ns(2), *comm->done_ns(3));
  EXPECT_LE(*comm->done_ns(3), end);
  for (Communicator::Sequence i = 0; i < Communicator::kDoneTimes; ++i) comm->wait(comm->all_reduce(numbers.span()));
  EXPECT_FALSE(comm->done_ns(3));
  EXPECT_GE(comm->done_ns(4).value_or(0), last_has_entered);
}

TEST(Communicator, SumsHostNumbersAndHasABarrier) {
  const auto comm = session().world(Allreduce::automatic);
  std::vector<double> values{1.0, 0.5 * comm->rank(), 0x1p40};
  comm->all_reduce_host(values);
  const int n = comm->size();
  EXPECT_EQ(values, (std::vector<double>{1.0 * n, 0.25 * n * (n - 1), 0x1p40 * n}));
  comm->barrier();
}

TEST(Session, CountsRanksOfThisHost) {
  EXPECT_EQ(session().local_size(), session().size());  // the tests run on one host
  EXPECT_EQ(session().local_rank(), session().rank());
  EXPECT_FALSE(session().host().empty());
}

TEST(Agree, NoFailureGivesNoError) { EXPECT_FALSE(session().agree(std::nullopt)); }

TEST(Agree, LowestFailedRankGivesTheError) {
  const int last = session().size() - 1, lower = last / 2;
  std::optional<Error> mine;
  if (session().rank() == last) mine.emplace(Exit::data, "a file is missing");
  if (session().rank() == lower) mine.emplace(Exit::output, "the disk is full");
  const auto agreed = session().agree(mine);
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->code(), Exit::output);
  const bool alone = session().size() == 1;
  EXPECT_EQ(agreed->what(), alone ? "the disk is full" : fmt::format("rank {}: the disk is full", lower));
}

TEST(Agree, CommonFailureHasNoRankPrefix) {
  const auto agreed = session().agree(Error(Exit::usage, "unknown option --frobnicate"));
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->code(), Exit::usage);
  EXPECT_STREQ(agreed->what(), "unknown option --frobnicate");
}

TEST(Agree, SameTextWithAnotherCodeHasARankPrefix) {
  const auto agreed = session().agree(Error(session().rank() == 0 ? Exit::data : Exit::model, "no"));
  ASSERT_TRUE(agreed);
  EXPECT_EQ(agreed->code(), Exit::data);
  EXPECT_STREQ(agreed->what(), session().size() == 1 ? "no" : "rank 0: no");
}

}  // namespace
}  // namespace ddp
