// Fully connected layers over lanes. A dense input is put into lanes first; the output is always in lanes.
#pragma once

#include "ops/cpu/parallel.h"
#include "ops/linear.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<Linear> make_lane_linear(const Workers& workers, const LinearDesc& desc,
                                         std::span<const int64_t> batch_sizes);

}  // namespace ddp
