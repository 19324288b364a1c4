// Fully connected layers on batch-interleaved activations, computed in f32. An input of another format or type is first
// copied to batch-interleaved f32. The output is batch-interleaved, of type `activations`.
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
