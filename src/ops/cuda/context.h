// What all ops of one rank share. Everything runs on one stream, so one workspace serves all.
#pragma once

#include "device/buffer.h"
#include "device/cuda/handles.h"
#include "ops/cuda/ops.h"

#include <cstddef>

namespace ddp {

// Grows while plans are made, and not after.
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
