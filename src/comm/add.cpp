#include "comm/add.h"

namespace ddp {

void add(void* to, const void* from, int64_t count, DType dtype) {
  if (dtype == DType::f32) {
    auto* const __restrict sum = static_cast<float*>(to);
    const auto* const __restrict term = static_cast<const float*>(from);
    for (int64_t i = 0; i < count; ++i) sum[i] += term[i];
  } else {
    auto* const __restrict sum = static_cast<uint16_t*>(to);
    const auto* const __restrict term = static_cast<const uint16_t*>(from);
    for (int64_t i = 0; i < count; ++i) sum[i] = bf16_of_float(float_of_bf16(sum[i]) + float_of_bf16(term[i]));
  }
}

}  // namespace ddp
