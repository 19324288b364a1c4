// Values in the memory of a tensor, by the definition of the formats in device/format.h, and their errors, as plain
// loops.
#pragma once

#include "core/dtype.h"
#include "core/shape.h"
#include "device/format.h"

#include <cstdint>
#include <vector>

namespace ddp::reference {

// The bytes of a tensor. `padding` is the value of the lanes past n and the channels past c.
std::vector<uint8_t> stored(const std::vector<float>& dense, const Shape& shape, Format format, DType type,
                            float padding);

struct Loaded {
  std::vector<float> dense, padding;
};
Loaded loaded(const std::vector<uint8_t>& bytes, const Shape& shape, Format format, DType type);

// The index of the first value that is not correct to half a unit in the last place of bf16, or -1. Values that are
// small compared with the largest one may have its rounding errors of f32.
int64_t first_inexact(const std::vector<float>& actual, const std::vector<float>& expected);

}  // namespace ddp::reference
