// The GPU backend. Where CUDA is not built, a twin is linked that throws Error(Exit::device).
#pragma once

#include "core/library_version.h"
#include "device/device.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Gives every rank the values of rank 0. Collective: all ranks call it as often, with as many values.
using AgreeFn = std::function<void(std::span<int64_t>)>;

struct CudaOpsConfig {
  Precision precision = Precision::tf32;
  bool deterministic = false;  // the same bits on every run
  AgreeFn agree;               // null: this rank decides for itself
};

// "cuDNN 9.19.0, cuBLASLt 13.1.0"
std::string describe_cuda_ops();

// Of cuDNN; none where CUDA is not built.
std::vector<LibraryVersion> cuda_ops_libraries();

// `device` is a CUDA device and outlives the result.
std::unique_ptr<Ops> make_cuda_ops(Device& device, const CudaOpsConfig& config);

}  // namespace ddp
