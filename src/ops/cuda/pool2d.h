#pragma once

#include "ops/cuda/context.h"
#include "ops/pool2d.h"

#include <memory>

namespace ddp {

std::unique_ptr<AvgPool2d> make_avg_pool2d(CudaContext& context, const AvgPool2dDesc& desc);

}  // namespace ddp
