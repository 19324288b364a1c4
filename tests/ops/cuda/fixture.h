// Shared by the tests of the CUDA kernels: an emulated device and its ops.
#pragma once

#include "device/cuda/device.h"
#include "ops/cuda/context.h"
#include "ops/cuda/ops.h"
#include "tests/ops/cuda/checks.h"

#include <memory>
#include <string>

namespace ddp::testing {

// A base class for tests that have an activation type as parameter.
struct EmulatedOps {
  explicit EmulatedOps(DType type = DType::f32)
      : context(*device, {type == DType::bf16 ? Precision::bf16 : Precision::fp32, false, {}}),
        ops(make_cuda_ops(*device, context.config)) {}

  std::unique_ptr<Device> device = make_cuda_device({});
  CudaContext context;                                           // for kernels that are not an op
  std::unique_ptr<Ops> ops;                                      // has its own context
  std::unique_ptr<Ops> reference = make_reference_ops(*device);  // on host memory

  Tested tested() const { return {*device, *ops, *reference, ops->activation_dtype()}; }
};

inline const auto kTypes = ::testing::Values(DType::f32, DType::bf16);
inline std::string type_name(const ::testing::TestParamInfo<DType>& tested) {
  return tested.param == DType::bf16 ? "bf16" : "f32";
}

}  // namespace ddp::testing
