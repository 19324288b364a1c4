#include "comm/add.h"
#include "emulator/emulator.h"
#include "tests/comm/nccl/fixture.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <tuple>

namespace ddp {
namespace {

class Collectives : public testing::TestWithParam<std::tuple<Transport, int>> {
 protected:
  void run(const std::function<void(Device&, Communicator&)>& function) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      emulator::set_seed(seed);
      run_gpus(std::get<0>(GetParam()), std::get<1>(GetParam()), function);
      if (HasFatalFailure()) FAIL() << "with seed " << seed;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Collectives,
                         testing::Combine(testing::Values(Transport::nccl, Transport::staged),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& instance) {
                           return (std::get<0>(instance.param) == Transport::nccl ? "nccl" : "staged") +
                                  std::to_string(std::get<1>(instance.param));
                         });

void fill(Array<float>& array, int rank) {
  for (size_t i = 0; i < array.count(); ++i) array[i] = value(rank, i);
}

// The host does not wait between the operations: the stream alone orders the copies before and after the sum.
TEST_P(Collectives, SumsAreOrderedAfterEarlierWorkAndBeforeLaterWork) {
  run([](Device& device, Communicator& comm) {
    std::deque<Array<float>> arrays;
    for (const size_t count : {0, 1, 7, 1023, 3, 0, 64, 2, 9, 5, 31, 200}) arrays.emplace_back(device, count);
    Communicator::Sequence last = 0;
    for (Array<float>& array : arrays) {
      fill(array, comm.rank());
      array.upload();
      ASSERT_EQ(comm.all_reduce(array.span()), ++last);
    }
    comm.wait(3);
    comm.wait(last);
    for (Array<float>& array : arrays) array.download();
    device.synchronize();
    EXPECT_EQ(comm.completed(), last);
    for (Array<float>& array : arrays)
      for (size_t i = 0; i < array.count(); ++i) ASSERT_EQ(array[i], sum_of_values(comm.size(), i));
  });
}

TEST_P(Collectives, SumBf16) {
  run([](Device& device, Communicator& comm) {
    Array<uint16_t> array(device, 33);
    for (size_t i = 0; i < array.count(); ++i) array[i] = bf16_of_float(value(comm.rank(), i));
    array.upload();
    comm.wait(comm.all_reduce(array.span()));
    array.download();
    device.synchronize();
    for (size_t i = 0; i < array.count(); ++i) ASSERT_EQ(float_of_bf16(array[i]), sum_of_values(comm.size(), i));
  });
}

TEST_P(Collectives, ReduceScatterThenAllGatherIsAnAllReduce) {
  run([](Device& device, Communicator& comm) {
    Array<float> array(device, 30 * static_cast<size_t>(comm.size()));
    fill(array, comm.rank());
    array.upload();
    comm.reduce_scatter(array.span());
    comm.wait(comm.all_gather(array.span()));
    array.download();
    device.synchronize();
    for (size_t i = 0; i < array.count(); ++i) ASSERT_EQ(array[i], sum_of_values(comm.size(), i));
  });
}

TEST_P(Collectives, ReduceScatterSumsThisRanksPart) {
  run([](Device& device, Communicator& comm) {
    const size_t part = 9;
    Array<float> array(device, part * static_cast<size_t>(comm.size()));
    fill(array, comm.rank());
    array.upload();
    comm.wait(comm.reduce_scatter(array.span()));
    array.download();
    device.synchronize();
    const size_t begin = part * static_cast<size_t>(comm.rank());
    for (size_t i = begin; i < begin + part; ++i) ASSERT_EQ(array[i], sum_of_values(comm.size(), i));
  });
}

TEST_P(Collectives, AllGatherFillsTheOthersParts) {
  run([](Device& device, Communicator& comm) {
    const size_t part = 9;
    Array<float> array(device, part * static_cast<size_t>(comm.size()));
    fill(array, comm.rank());
    array.upload();
    comm.wait(comm.all_gather(array.span()));
    array.download();
    device.synchronize();
    for (size_t i = 0; i < array.count(); ++i) ASSERT_EQ(array[i], value(static_cast<int>(i / part), i));
  });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run([](Device& device, Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      Array<float> array(device, 17);
      fill(array, comm.rank());
      array.upload();
      comm.wait(comm.broadcast(array.span(), root));
      array.download();
      device.synchronize();
      for (size_t i = 0; i < array.count(); ++i) ASSERT_EQ(array[i], value(root, i));
    }
  });
}

TEST_P(Collectives, ReuseTheSameSpansInEveryStep) {
  run([](Device& device, Communicator& comm) {
    Array<float> a(device, 10), b(device, 3);
    for (Array<float>* array : {&a, &b}) {
      for (size_t i = 0; i < array->count(); ++i) (*array)[i] = 1;
      array->upload();
    }
    float expected = 1;
    for (int step = 0; step < 4; ++step) {
      comm.all_reduce(a.span());
      comm.progress();
      comm.wait(comm.all_reduce(b.span()));
      expected *= static_cast<float>(comm.size());
    }
    a.download();
    b.download();
    device.synchronize();
    for (size_t i = 0; i < a.count(); ++i) ASSERT_EQ(a[i], expected);
    for (size_t i = 0; i < b.count(); ++i) ASSERT_EQ(b[i], expected);
  });
}

TEST_P(Collectives, SumHostNumbersAndSplit) {
  run([](Device& device, Communicator& comm) {
    std::vector<double> numbers{1.0, static_cast<double>(comm.rank())};
    comm.all_reduce_host(numbers);
    const int n = comm.size();
    ASSERT_EQ(numbers, (std::vector<double>{1.0 * n, 0.5 * n * (n - 1)}));
    comm.barrier();

    const auto part = comm.split(comm.rank() % 2);
    ASSERT_EQ(part->rank(), comm.rank() / 2);
    Array<float> array(device, 5);
    fill(array, comm.rank());
    array.upload();
    part->wait(part->all_reduce(array.span()));
    array.download();
    device.synchronize();
    for (size_t i = 0; i < array.count(); ++i) {
      float expected = 0;
      for (int r = comm.rank() % 2; r < n; r += 2) expected += value(r, i);
      ASSERT_EQ(array[i], expected);
    }
  });
}

}  // namespace
}  // namespace ddp
