// The GPU backend: cuDNN, cuBLASLt and our own kernels. A build without CUDA links no_cuda.cpp instead, whose
// make_cuda_ops throws Error(Exit::device).
#pragma once

#include "core/library_version.h"
#include "device/device.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Replaces the values on all ranks by those of rank 0. Collective: all ranks make the same calls with the same counts.
using AgreeFn = std::function<void(std::span<int64_t>)>;

// The engines of cuDNN that were measured for a pass of a convolution or of attention, in the order of their times. An
// engine is there once for each of its settings. No engines: none computes this pass of attention, and our kernel does.
struct MeasuredPass {
  struct Engine {
    int64_t number = 0;
    double microseconds = 0;
  };
  std::string name;
  std::vector<Engine> engines;
  std::vector<int64_t> fastest = {};  // its number, then the type and the value of each setting
};

struct CudaOpsConfig {
  Precision precision = Precision::tf32;
  bool deterministic = false;          // the same bits on every run
  AgreeFn agree;                       // null: this rank selects its own algorithms
  std::function<bool()> decided = {};  // whether `agree` has the next algorithm already; null: it has not
  std::function<void(const MeasuredPass&)> measured = {};  // told of each measured pass; null: nobody is
  // No pass is measured later than this after the first one, in seconds: the others get the engine that cuDNN
  // recommends. 0: none is measured.
  double measuring_seconds = 1e9;
  std::map<std::string, std::vector<int64_t>> known = {};  // MeasuredPass::fastest by name: these are not measured
};

// Such as "cuDNN 9.19.0, cuBLASLt 13.1.0", or "built without CUDA".
std::string describe_cuda_ops();

// The version of cuDNN; empty in a build without CUDA.
std::vector<LibraryVersion> cuda_ops_libraries();

// `device` is a CUDA device and outlives the result.
std::unique_ptr<Ops> make_cuda_ops(Device& device, const CudaOpsConfig& config);

}  // namespace ddp
