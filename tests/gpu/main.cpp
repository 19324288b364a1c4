// gpu_test [gtest options] runs the tests. gpu_test --machine describes the machine, and fails without a GPU.
#include "comm/nccl/communicator.h"
#include "device/buffer.h"
#include "device/cuda/device.h"
#include "ops/cuda/ops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

namespace {

// The greatest time in ns of which all differences of the device's clock are multiples.
int64_t clock_step_ns(ddp::Device& device) {
  const ddp::Buffer stamps(device, 256 * sizeof(int64_t));
  auto* const at = static_cast<int64_t*>(stamps.data());
  for (int i = 0; i < 256; ++i) device.timestamp(at + i);
  std::vector<int64_t> times(256);
  device.download(times.data(), at, stamps.bytes());
  device.synchronize();
  int64_t step = 0;
  for (const int64_t time : times) step = std::gcd(step, time - times[0]);
  return step;
}

int describe_machine() {
  std::string why;
  const int gpus = ddp::count_cuda_devices(why);
  if (gpus == 0) {
    fmt::print("{}\n", why);
    return 1;
  }
  const ddp::CudaDeviceInfo info = ddp::cuda_device_info(0);
  fmt::print("machine: gpus = {}\nmachine: gpu = {}\nmachine: versions = {}, {}, {}\n", gpus, info.name, info.version,
             ddp::describe_cuda_ops(), ddp::describe_nccl());
  fmt::print("machine: compute capability = {}.{}\nmachine: processors = {}\nmachine: step of the clock = {} ns\n",
             info.capability / 10, info.capability % 10, info.processors, clock_step_ns(*ddp::make_cuda_device({})));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--machine") == 0) {
    try {
      return describe_machine();
    } catch (const std::exception& e) {
      fmt::print("{}\n", e.what());
      return 1;
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
