// The GPU of this rank. In a build without CUDA (no_cuda.cpp) count_cuda_devices() returns 0, and the other functions
// throw Error(Exit::device).
#pragma once

#include "device/device.h"

#include <memory>
#include <string>

namespace ddp {

// Returns the number of GPUs that this process sees. If it is 0, `why` gets the reason.
int count_cuda_devices(std::string& why);

struct CudaDeviceInfo {
  std::string name;     // "NVIDIA H200"
  std::string bus_id;   // "0000:1b:00.0"
  std::string uuid;     // hexadecimal; unique for every GPU and every MIG instance
  std::string version;  // "driver 13.0, CUDA 13.0"
  int capability = 0;   // 90: compute capability 9.0
  int processors = 0;   // streaming multiprocessors

  // "compiling kernels for ..." if the driver compiles them at the first start on this GPU, else empty.
  std::string compiling;
};

// Throws Error(Exit::device).
CudaDeviceInfo cuda_device_info(int index);

struct CudaDeviceConfig {
  int index = 0;
  bool graphs = true;         // whether graph_cache() captures graphs
  bool programmatic = false;  // launches of this process (device/cuda/launch.h)
};

// Throws Error(Exit::device), also for a GPU that cannot run the program's kernels or its programmatic launches.
std::unique_ptr<Device> make_cuda_device(const CudaDeviceConfig& config);

}  // namespace ddp
