// Pooling on the GPU (ops/pool2d.h), for dense activations in f32 or bf16.
#pragma once

#include "ops/cuda/context.h"
#include "ops/pool2d.h"

#include <memory>

namespace ddp {

std::unique_ptr<Pool2d> make_pool2d(CudaContext& context, const Pool2dDesc& desc);

}  // namespace ddp
