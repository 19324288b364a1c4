// Where ops read weights and biases.
#pragma once

#include "core/dtype.h"

#include <cstdint>

namespace ddp {

// Values in device memory: in f32, and, for backends with Ops::reads_bf16_weights(), the same rounded to bf16.
struct WeightData {
  const float* f32 = nullptr;
  const uint16_t* bf16 = nullptr;
  const void* as(DType type) const { return type == DType::bf16 ? static_cast<const void*>(bf16) : f32; }
  WeightData at(int64_t offset) const { return {f32 + offset, bf16 ? bf16 + offset : nullptr}; }
};

}  // namespace ddp
