// The GPU backend: cuDNN, cuBLASLt and our own kernels. A build without CUDA links no_cuda.cpp instead, whose
// make_cuda_ops throws Error(Exit::device).
#pragma once

#include "core/library_version.h"
#include "device/device.h"
#include "ops/measuring.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <memory>
#include <string>
#include <vector>

namespace ddp {

struct CudaOpsConfig {
  Precision precision = Precision::tf32;
  bool deterministic = false;  // the same bits on every run
  Measuring measuring = {};    // of cuDNN's engines; 0 seconds or deterministic: the recommended one
};

// Such as "cuDNN 9.19.0, cuBLASLt 13.1.0", or "built without CUDA".
std::string describe_cuda_ops();

// The version of cuDNN; empty in a build without CUDA.
std::vector<LibraryVersion> cuda_ops_libraries();

// `device` is a CUDA device and outlives the result.
std::unique_ptr<Ops> make_cuda_ops(Device& device, const CudaOpsConfig& config);

}  // namespace ddp
