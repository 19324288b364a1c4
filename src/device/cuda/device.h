// The GPU that belongs to this rank. Where CUDA is not built, a twin is linked that sees none and refuses to make one.
#pragma once

#include "device/device.h"

#include <memory>
#include <string>

namespace ddp {

// How many GPUs this process sees; where that is 0, `why` says why.
int count_cuda_devices(std::string& why);

struct CudaDeviceInfo {
  std::string name;     // "NVIDIA H200"
  std::string bus_id;   // "0000:1b:00.0"
  std::string uuid;     // differs between all GPUs, and between the parts of a divided one
  std::string version;  // "driver 13.0, CUDA 13.0"
};

// Throws Error(Exit::device).
CudaDeviceInfo cuda_device_info(int index);

struct CudaDeviceConfig {
  int index = 0;
  bool graphs = true;  // whether recorders record
};

std::unique_ptr<Device> make_cuda_device(const CudaDeviceConfig& config);

}  // namespace ddp
