// gpu_test [gtest options] runs the tests. gpu_test --machine describes the machine, and fails without a GPU.
#include "comm/nccl/communicator.h"
#include "device/cuda/device.h"
#include "ops/cuda/ops.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <string>

namespace {

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
