// Element types of tensors and of the spans of collectives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

enum class DType : uint8_t { f32, bf16 };

constexpr size_t size_of(DType type) { return type == DType::f32 ? 4 : 2; }  // bytes

}  // namespace ddp
