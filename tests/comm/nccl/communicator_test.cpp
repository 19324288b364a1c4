#include "core/error.h"
#include "emulator/emulator.h"
#include "tests/comm/nccl/fixture.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace ddp {
namespace {

using namespace std::chrono_literals;

// The text of the Error(Exit::communication) that `function` throws; empty if it does not throw.
std::string refusal(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::communication) << error.what();
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

class Nccl : public testing::Test {
 protected:
  ~Nccl() override {
    EXPECT_EQ(fake_nccl::communicators(), 0);
    fake_nccl::reset();
  }
};

TEST_F(Nccl, IsCapturedAndCountsReplays) {
  for (const int size : {1, 2, 3})
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      emulator::set_seed(seed);
      run_gpus(Transport::nccl, size, [](Device& device, Communicator& comm) {
        ASSERT_TRUE(comm.capturable());
        Array<float> sum(device, 5), scratch(device, 700), total(device, 5);
        for (size_t i = 0; i < sum.count(); ++i) sum[i] = 1;
        sum.upload();
        const auto graphs = device.graph_cache();
        for (int step = 0; step < 5; ++step)
          graphs->run({1, 5}, [&] {
            device.zero(scratch.data(), scratch.count() * sizeof(float));
            comm.all_reduce(scratch.span());
            comm.wait(comm.all_reduce(sum.span()));
          });
        sum.download();
        scratch.download();
        device.synchronize();
        ASSERT_EQ(comm.completed(), 10);
        float expected = 1;
        for (int step = 0; step < 5; ++step) expected *= static_cast<float>(comm.size());
        for (size_t i = 0; i < sum.count(); ++i) ASSERT_EQ(sum[i], expected);
        for (size_t i = 0; i < scratch.count(); ++i) ASSERT_EQ(scratch[i], 0);
      });
      if (HasFatalFailure()) FAIL() << size << " ranks, seed " << seed;
    }
}

TEST_F(Nccl, MemoryIsZeroedAndFreed) {
  run_gpus(Transport::nccl, 2, [](Device& device, Communicator& comm) {
    ASSERT_NE(comm.memory(), nullptr);
    Buffer first(*comm.memory(), 100), none(*comm.memory(), 0);
    Array<float> read(device, 25);
    device.download(&read[0], first.data(), first.bytes());
    device.synchronize();
    for (size_t i = 0; i < read.count(); ++i) ASSERT_EQ(read[i], 0);
    comm.wait(comm.all_reduce({first.data(), 25, DType::f32}));
  });
}

TEST_F(Nccl, OutOfMemoryIsADeviceError) {
  emulator::set_memory(1 << 20);
  run_gpus(Transport::nccl, 1, [](Device&, Communicator& comm) {
    try {
      comm.memory()->allocate(1 << 30);
      ADD_FAILURE() << "a GiB of a MiB";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::device);
      EXPECT_TRUE(contains(error.what(), "1073741824 bytes")) << error.what();
    }
  });
  emulator::set_memory(size_t{1} << 34);
}

TEST_F(Nccl, MissingRanksTimeOut) {
  fake_nccl::never_initialise();
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(1, [](Communicator& host) {
    const auto device = make_cuda_device({});
    const std::string text = refusal([&] { make_nccl_communicator(*device, host, {.deadline = 1s}); });
    EXPECT_TRUE(contains(text, "initialisation: not done after 1 s")) << text;
    EXPECT_TRUE(contains(text, "NCCL_SOCKET_IFNAME")) << text;
  });
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1s);
}

TEST_F(Nccl, InitializationErrorHasNcclsMessage) {
  fake_nccl::fail_rank(0, ncclSystemError);
  run_ranks(1, [](Communicator& host) {
    const auto device = make_cuda_device({});
    const std::string text = refusal([&] { make_nccl_communicator(*device, host, {}); });
    EXPECT_TRUE(contains(text, "unhandled system error; NCCL's last error: a planted failure")) << text;
  });
}

TEST_F(Nccl, AllRanksSeeAFailedRank) {
  run_gpus(Transport::nccl, 2, [](Device& device, Communicator& comm) {
    ASSERT_FALSE(comm.failure());
    Array<float> array(device, 5);
    comm.barrier();
    if (comm.rank() == 1) fake_nccl::fail_rank(1, ncclSystemError);
    comm.barrier();
    ASSERT_TRUE(comm.failure());
    EXPECT_TRUE(contains(*comm.failure(), comm.rank() == 1 ? "unhandled system error" : "remote process exited"))
        << *comm.failure();
    const std::string text = refusal([&] { comm.all_reduce(array.span()); });
    EXPECT_TRUE(contains(text, "NCCL: all-reduce: ")) << text;
    EXPECT_TRUE(contains(text, comm.rank() == 1 ? "a planted failure" : "a peer is gone")) << text;
  });
}

TEST_F(Nccl, MayBeWatchedFromAnotherThread) {
  run_gpus(Transport::nccl, 2, [](Device& device, Communicator& comm) {
    std::atomic<bool> stop = false;
    std::thread watchdog([&, &watched = static_cast<const Communicator&>(comm)] {
      Communicator::Sequence before = 0;
      while (!stop) {
        EXPECT_FALSE(watched.failure());
        const auto now = watched.completed();
        EXPECT_GE(now, before);
        before = now;
      }
    });
    Array<float> array(device, 5);
    for (int i = 0; i < 200; ++i) {
      comm.wait(comm.all_reduce(array.span()));
      if (i % 20 == 0) device.synchronize();
    }
    device.synchronize();
    stop = true;
    watchdog.join();
    EXPECT_EQ(comm.completed(), 200);
  });
}

TEST_F(Nccl, SetsRingVariablesAndRefusesContradictions) {
  unsetenv("NCCL_ALGO");
  set_nccl_variables({.ring = true}, 0);
  EXPECT_STREQ(std::getenv("NCCL_ALGO"), "Ring");
  setenv("NCCL_ALGO", "Tree", 1);
  EXPECT_THROW(set_nccl_variables({.ring = true}, 0), Error);
  unsetenv("NCCL_ALGO");
}

}  // namespace
}  // namespace ddp
