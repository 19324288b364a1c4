// The CUDA device on the emulator. The emulator runs streams in any order that events allow.
#include "device/cuda/device.h"

#include "core/error.h"
#include "device/buffer.h"
#include "device/cuda/handles.h"
#include "device/cuda/kernel_image.h"
#include "device/cuda/launch.h"

#include <emulator/emulator.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace ddp {
namespace {

__global__ void add_one(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) ++values[i];
}

class CudaDevice : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override { emulator::set_seed(GetParam()); }

  static constexpr int kCount = 1000;
  static constexpr size_t kBytes = kCount * sizeof(int);
  void bump(int* values) { launch(compute_stream(*device), blocks_for(kCount, 128), 128, add_one, values, kCount); }

  std::unique_ptr<Device> device = make_cuda_device({});
};
INSTANTIATE_TEST_SUITE_P(, CudaDevice, testing::Range(0u, 20u));

TEST_P(CudaDevice, AllocatesZeros) {
  const Buffer memory(*device, kBytes);
  std::vector<int> values(kCount, 7);
  device->download(values.data(), memory.data(), kBytes);
  device->synchronize();
  EXPECT_EQ(values, std::vector<int>(kCount, 0));
}

TEST_P(CudaDevice, CountsWhatItHasAllocated) {
  const int64_t before = device->memory_use().allocated;
  { const Buffer freed(*device, kBytes); }
  const Buffer kept(*device, 3 * kBytes);
  EXPECT_EQ(device->memory_use().allocated - before, static_cast<int64_t>(4 * kBytes));
  EXPECT_GT(device->memory_use().free, 0);
}

TEST_P(CudaDevice, CopiesAreOrderedWithWork) {
  const Buffer memory(*device, kBytes), pinned(device->host_memory(), kBytes);
  auto* const host = pinned.as<int>();
  std::iota(host, host + kCount, 0);
  device->upload(memory.data(), host, kBytes);
  bump(memory.as<int>());
  device->download(host, memory.data(), kBytes);
  device->fence(3);
  device->await(3);
  EXPECT_TRUE(device->passed(3));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(host[i], i + 1);
}

TEST_P(CudaDevice, PageableMemoryIsFreeWhenAnUploadReturns) {
  const Buffer memory(*device, 2 * kBytes);
  std::vector<int> values(kCount, 1), found(2 * kCount);
  device->upload(memory.data(), values.data(), kBytes);
  std::fill(values.begin(), values.end(), 2);
  device->upload_ahead(memory.as<int>() + kCount, values.data(), kBytes);
  std::fill(values.begin(), values.end(), 3);
  device->download(found.data(), memory.data(), 2 * kBytes);
  device->synchronize();
  for (int i = 0; i < 2 * kCount; ++i) ASSERT_EQ(found[i], i < kCount ? 1 : 2) << i;
}

TEST_P(CudaDevice, LaterWorkSeesAnUploadAhead) {
  const Buffer memory(*device, kBytes), pinned(device->host_memory(), kBytes);
  auto* const host = pinned.as<int>();
  for (int round = 0; round < 3; ++round) {
    std::fill_n(host, kCount, round);
    device->upload_ahead(memory.data(), host, kBytes);
    bump(memory.as<int>());
    std::vector<int> values(kCount);
    device->download(values.data(), memory.data(), kBytes);
    device->synchronize();
    ASSERT_EQ(values, std::vector<int>(kCount, round + 1));
  }
}

TEST_P(CudaDevice, TimestampsFollowEarlierWorkAndAreDownloaded) {
  const Buffer memory(*device, kBytes), timestamps(*device, 3 * sizeof(int64_t)), pinned(device->host_memory(), 24);
  const auto graphs = device->graph_cache();
  for (int round = 0; round < 4; ++round) {  // direct, captured, then replayed
    graphs->run({}, [&] {
      for (int i = 0; i < 3; ++i) {
        bump(memory.as<int>());
        device->timestamp(timestamps.as<int64_t>() + i);
      }
    });
    device->download(pinned.data(), timestamps.data(), 24);
    device->fence(0);
    device->await(0);
    const auto* const at = pinned.as<int64_t>();
    EXPECT_GT(at[0], 0);
    EXPECT_LE(at[0], at[1]);
    EXPECT_LE(at[1], at[2]);
  }
}

TEST_P(CudaDevice, CapturesEachKeyOnceAndReplaysIt) {
  const Buffer memory(*device, kBytes);
  const auto graphs = device->graph_cache();
  int issued = 0;
  for (int round = 0; round < 6; ++round)
    for (const int64_t size : {1, 2})
      graphs->run({.kind = 0, .size = size}, [&] {
        ++issued;
        for (int64_t i = 0; i < size; ++i) bump(memory.as<int>());
      });
  EXPECT_EQ(issued, 4);  // each of the two keys: once direct, once captured
  std::vector<int> values(kCount);
  device->download(values.data(), memory.data(), kBytes);
  device->synchronize();
  EXPECT_EQ(values, std::vector<int>(kCount, 18));
}

TEST_P(CudaDevice, WithoutGraphsEveryCallIssuesTheWork) {
  device = make_cuda_device({.index = 0, .graphs = false});
  const auto graphs = device->graph_cache();
  int issued = 0;
  for (int round = 0; round < 5; ++round) graphs->run({}, [&] { ++issued; });
  EXPECT_EQ(issued, 5);
}

TEST_P(CudaDevice, FailureDuringCaptureLeavesTheDeviceUsable) {
  const Buffer memory(*device, kBytes);
  const auto graphs = device->graph_cache();
  graphs->run({}, [&] { bump(memory.as<int>()); });
  EXPECT_THROW(graphs->run({}, [&] { fail(Exit::internal, "on purpose"); }), Error);
  bump(memory.as<int>());
  std::vector<int> values(kCount);
  device->download(values.data(), memory.data(), kBytes);
  device->synchronize();
  EXPECT_EQ(values, std::vector<int>(kCount, 2));
}

TEST(CudaDevices, GiveAReasonWithoutAGpu) {
  emulator::set_device_count(0);
  std::string why;
  EXPECT_EQ(count_cuda_devices(why), 0);
  EXPECT_FALSE(why.empty());
  emulator::set_device_count(1);
  EXPECT_EQ(count_cuda_devices(why), 1);
}

// The emulated program is built for 80-virtual and 90-real.
TEST(CudaDevices, AreRefusedByNameWithoutKernels) {
  struct Gpu {
    int capability;
    std::string refused, compiling;
  };
  for (const Gpu& gpu :
       {Gpu{75, "has compute capability 7.5, this program needs 8.0", ""}, Gpu{80, "", "(compute capability 8.0)"},
        Gpu{89, "", "(compute capability 8.9)"}, Gpu{90, "", ""}, Gpu{120, "", "(compute capability 12.0)"}}) {
    emulator::set_capability(gpu.capability);
    const CudaDeviceInfo info = cuda_device_info(0);
    EXPECT_EQ(info.compiling.empty(), gpu.compiling.empty()) << info.compiling;
    if (!gpu.compiling.empty()) {
      EXPECT_EQ(info.compiling.find("compiling kernels for " + info.name + " " + gpu.compiling), 0u) << info.compiling;
    }
    std::string refused;
    try {
      make_cuda_device({});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::device);
      refused = error.what();
    }
    EXPECT_EQ(refused.empty(), gpu.refused.empty()) << refused;
    if (!gpu.refused.empty()) {
      EXPECT_EQ(refused.find(info.name + " " + gpu.refused), 0u) << refused;
      EXPECT_NE(refused.find("--device cpu"), refused.npos) << refused;
    }
  }
  emulator::set_capability(90);
}

TEST(ProgrammaticLaunches, AreThoseOfAllKernels) {
  for (const bool on : {true, false}) {
    const auto device = make_cuda_device({.programmatic = on});
    const Buffer time(*device, sizeof(int64_t));
    const emulator::Issued before = emulator::issued();
    for (int i = 0; i < 3; ++i) device->timestamp(time.as<int64_t>());
    const emulator::Issued after = emulator::issued();
    EXPECT_EQ(after.kernels - before.kernels, 3);
    EXPECT_EQ(after.programmatic - before.programmatic, on ? 3 : 0);
  }
}

TEST(ProgrammaticLaunches, NeedComputeCapability9) {
  emulator::set_capability(89);
  try {
    make_cuda_device({.programmatic = true});
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::device);
    EXPECT_NE(std::string(error.what()).find("--programmatic-launch needs a GPU of compute capability 9.0"),
              std::string::npos)
        << error.what();
  }
  emulator::set_capability(90);
}

TEST(KernelImages, FollowTheRulesOfCuda) {
  using enum KernelImage;
  const std::string preset = "80-virtual,90-real", both = "80-real,90-real,90-virtual";
  const std::tuple<std::string, int, KernelImage> cases[] = {
      {preset, 75, none},  {preset, 80, ptx},   {preset, 86, ptx},        {preset, 90, binary},
      {preset, 100, ptx},  {both, 86, binary},  {both, 90, binary},       {both, 120, ptx},
      {"86", 80, none},    {"86", 89, binary},  {"86", 90, ptx},          {"86-real", 90, none},
      {"90a", 90, binary}, {"90a", 100, none},  {"90a-real", 90, binary}, {"100f", 103, binary},
      {"100f", 120, none}, {"103f", 100, none}, {"100-real", 90, none},   {"native", 75, binary}};
  for (const auto& [built, capability, expected] : cases)
    EXPECT_EQ(kernel_image(built, capability), expected) << built << " on " << capability;
}

}  // namespace
}  // namespace ddp
