// What the tests of the CUDA kernels share: an emulated device and its ops.
#pragma once

#include "device/cuda/device.h"
#include "ops/cuda/context.h"
#include "ops/cuda/ops.h"
#include "tests/emulated_ops/checks.h"

#include <memory>
#include <string>

namespace ddp::testing {

// For a test class that is run with a type of activations.
struct EmulatedOps {
  explicit EmulatedOps(DType type = DType::f32)
      : context(*device, {type == DType::bf16 ? Precision::bf16 : Precision::fp32, false, {}}),
        ops(make_cuda_ops(*device, context.config)) {}

  std::unique_ptr<Device> device = make_cuda_device({});
  CudaContext context;                                           // for kernels that are no op by themselves
  std::unique_ptr<Ops> ops;                                      // with a context of its own
  std::unique_ptr<Ops> reference = make_reference_ops(*device);  // on memory of the host

  Tested tested() const { return {*device, *ops, *reference, ops->activation_dtype()}; }
};

inline const auto kTypes = ::testing::Values(DType::f32, DType::bf16);
inline std::string type_name(const ::testing::TestParamInfo<DType>& tested) {
  return tested.param == DType::bf16 ? "bf16" : "f32";
}

}  // namespace ddp::testing
