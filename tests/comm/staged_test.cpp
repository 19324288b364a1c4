#include "comm/staged.h"

#include "device/cpu/device.h"
#include "tests/comm/rank_values.h"
#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

namespace ddp {
namespace {

// A device whose fences pass at the third query, so collectives are late.
class SlowDevice final : public Device {
 public:
  std::string name() const override { return "slow"; }
  bool is_host() const override { return false; }
  Memory& host_memory() override { return *cpu_; }
  void* allocate(size_t bytes) override { return cpu_->allocate(bytes); }
  void deallocate(void* memory) noexcept override { cpu_->deallocate(memory); }
  void upload(void* device, const void* host, size_t bytes) override { cpu_->upload(device, host, bytes); }
  void download(void* host, const void* device, size_t bytes) override { cpu_->download(host, device, bytes); }
  void upload_ahead(void* device, const void* host, size_t bytes) override { cpu_->upload_ahead(device, host, bytes); }
  void zero(void* device, size_t bytes) override { cpu_->zero(device, bytes); }
  void synchronize() override {}
  void fence(int slot) override { looks_.at(static_cast<size_t>(slot)) = 3; }
  void await(int slot) override {
    looks_.at(static_cast<size_t>(slot)) = 0;
    ++awaited;
  }
  bool passed(int slot) override {
    int& looks = looks_.at(static_cast<size_t>(slot));
    return looks == 0 || --looks == 0;
  }
  void timestamp(int64_t* nanoseconds) override { cpu_->timestamp(nanoseconds); }
  std::unique_ptr<GraphCache> graph_cache() override { return cpu_->graph_cache(); }

  int awaited = 0;

 private:
  std::unique_ptr<Device> cpu_ = make_cpu_device();
  std::vector<int> looks_ = std::vector<int>(kFences);
};

class StagedWorlds : public ::testing::TestWithParam<int> {
 protected:
  // Runs `function` over a device that completes at once, and over a slow device. On the slow device the last
  // kStagedFences fences stay free for a split communicator.
  void run(const std::function<void(Device&, Communicator&)>& function) {
    run_ranks(GetParam(), [&](Communicator& host) {
      const auto device = make_cpu_device();
      const auto staged = make_staged_communicator(*device, host, 0);
      function(*device, *staged);
    });
    run_ranks(GetParam(), [&](Communicator& host) {
      SlowDevice device;
      const auto staged = make_staged_communicator(device, host, Device::kFences - 2 * kStagedFences);
      function(device, *staged);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(, StagedWorlds, ::testing::Values(1, 2, 3, 4));

TEST_P(StagedWorlds, SumEverySize) {
  run([](Device&, Communicator& comm) {
    for (const int64_t count : {0, 1, 7, 1024, 5001}) {
      std::vector<float> v = values(comm.rank(), count);
      comm.wait(comm.all_reduce(DeviceSpan::of(v)));
      for (size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], sum_of_values(comm.size(), i)) << i << " of " << count;
    }
  });
}

TEST_P(StagedWorlds, ManyAreOutstandingWithAnyWaitOrder) {
  run([](Device&, Communicator& comm) {
    constexpr int kCollectives = 60;
    std::vector<std::vector<float>> v;
    std::vector<Communicator::Sequence> waits;
    for (int k = 0; k < kCollectives; ++k) v.push_back(values(comm.rank(), k));
    for (int k = 0; k < kCollectives; ++k) {
      ASSERT_EQ(comm.all_reduce(DeviceSpan::of(v[static_cast<size_t>(k)])), k + 1);
      waits.push_back(static_cast<Communicator::Sequence>(k) + 1);
      if ((k + comm.rank()) % 7 == 0) comm.progress();
    }
    std::shuffle(waits.begin(), waits.end(), std::minstd_rand(static_cast<unsigned>(comm.rank())));
    for (const Communicator::Sequence n : waits) {
      comm.wait(n);
      const std::vector<float>& sum = v[n - 1];
      for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], sum_of_values(comm.size(), i));
    }
    EXPECT_EQ(comm.completed(), kCollectives);
  });
}

TEST_P(StagedWorlds, OverlappingSpansAreOrdered) {
  run([](Device&, Communicator& comm) {
    std::vector<float> v = values(comm.rank(), 30 * comm.size());
    comm.reduce_scatter(DeviceSpan::of(v));
    comm.all_gather(DeviceSpan::of(v));
    const std::span<float> part = std::span(v).subspan(3, 4);
    comm.wait(comm.all_reduce(DeviceSpan::of(part)));
    for (size_t i = 0; i < v.size(); ++i) {
      const float expected = sum_of_values(comm.size(), i) * static_cast<float>(i >= 3 && i < 7 ? comm.size() : 1);
      ASSERT_EQ(v[i], expected) << i;
    }
  });
}

TEST_P(StagedWorlds, BroadcastSumHostNumbersAndSplit) {
  run([](Device&, Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<float> v = values(comm.rank(), 100);
      comm.wait(comm.broadcast(DeviceSpan::of(v), root));
      ASSERT_EQ(v, values(root, 100));
    }
    std::vector<double> one{1.0};
    comm.all_reduce_host(one);
    ASSERT_EQ(one[0], comm.size());
    const auto part = comm.split(comm.rank() % 2);
    std::vector<float> v{1.0f};
    part->wait(part->all_reduce(DeviceSpan::of(v)));
    ASSERT_EQ(v[0], static_cast<float>(part->size()));
  });
}

TEST(Staged, WaitsForTheOldestIfNoFenceIsFree) {
  run_ranks(2, [](Communicator& host) {
    SlowDevice device;
    const auto staged = make_staged_communicator(device, host, 0);
    std::vector<std::vector<float>> v(20, std::vector<float>{2.0f});
    Communicator::Sequence last = 0;
    for (auto& one : v) {
      for (int slot = 0; slot < kStagedFences; ++slot)
        device.fence(slot);  // fences of another communicator, none passed
      last = staged->all_reduce(DeviceSpan::of(one));
    }
    EXPECT_GT(device.awaited, 0);
    staged->wait(last);
    for (const auto& one : v) ASSERT_EQ(one[0], 4.0f);
  });
}

TEST(Staged, IsNotCapturableAndTakesAnyMemory) {
  run_ranks(1, [](Communicator& host) {
    const auto device = make_cpu_device();
    const auto staged = make_staged_communicator(*device, host, 0);
    EXPECT_FALSE(staged->capturable());
    EXPECT_EQ(staged->memory(), nullptr);
    EXPECT_FALSE(staged->failure());
    EXPECT_ANY_THROW(staged->wait(1));
    EXPECT_ANY_THROW(make_staged_communicator(*device, host, Device::kFences - kStagedFences + 1));
  });
}

}  // namespace
}  // namespace ddp
