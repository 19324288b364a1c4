#pragma once

#include "ops/cpu/parallel.h"
#include "ops/pool2d.h"

#include <memory>

namespace ddp {

std::unique_ptr<AvgPool2d> make_avg_pool2d(const Workers& workers, const AvgPool2dDesc& desc);

}  // namespace ddp
