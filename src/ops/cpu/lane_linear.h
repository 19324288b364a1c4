// Fully connected layers over lanes, computed in f32. An input in another format or type is put into lanes of f32
// first; the output is in lanes, of the input's type.
#pragma once

#include "core/dtype.h"
#include "ops/cpu/parallel.h"
#include "ops/linear.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<Linear> make_lane_linear(const Workers& workers, DType activations, const LinearDesc& desc,
                                         std::span<const int64_t> batch_sizes);

}  // namespace ddp
