// Shared by all ops of one rank. All work runs on one stream, so all ops share one workspace.
#pragma once

#include "device/buffer.h"
#include "device/cuda/handles.h"
#include "ops/cuda/ops.h"

#include <cstddef>

namespace ddp {

// Scratch memory. It grows while plans are made, never in a step.
class Workspace {
 public:
  explicit Workspace(Memory& memory) : memory_(memory) {}
  void reserve(size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = Buffer(memory_, bytes);
  }
  void* data() const { return buffer_.data(); }
  size_t bytes() const { return buffer_.bytes(); }

 private:
  Memory& memory_;
  Buffer buffer_;
};

struct CudaContext {
  CudaContext(Device& device_, const CudaOpsConfig& config_)
      : device(device_), stream(compute_stream(device_)), config(config_), workspace(device_) {}

  DType activations() const { return config.precision == Precision::bf16 ? DType::bf16 : DType::f32; }

  Device& device;
  cudaStream_t stream;
  CudaOpsConfig config;
  Workspace workspace;
};

}  // namespace ddp
