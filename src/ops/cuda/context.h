// Shared by all ops of one rank. All work runs on one stream, so all ops share one workspace.
#pragma once

#include "device/buffer.h"
#include "device/cuda/handles.h"
#include "device/scratch.h"
#include "ops/cuda/ops.h"

namespace ddp {

struct CudaContext {
  CudaContext(Device& device_, const CudaOpsConfig& config_)
      : device(device_),
        stream(compute_stream(device_)),
        config(config_),
        workspace(device_),
        counters_(device_, kCounters * sizeof(unsigned)) {}

  // Counters of blocks (ops/cuda/reduce.cuh): 0 between kernels.
  static constexpr int kCounters = 4096;
  unsigned* counters() const { return counters_.as<unsigned>(); }

  DType activations() const { return config.precision == Precision::bf16 ? DType::bf16 : DType::f32; }

  Device& device;
  cudaStream_t stream;
  CudaOpsConfig config;
  Scratch workspace;

 private:
  Buffer counters_;
};

}  // namespace ddp
