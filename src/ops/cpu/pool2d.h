// Pooling on the CPU (ops/pool2d.h), for all formats, in f32 or bf16.
#pragma once

#include "core/dtype.h"
#include "ops/cpu/parallel.h"
#include "ops/pool2d.h"

#include <memory>

namespace ddp {

std::unique_ptr<Pool2d> make_cpu_pool2d(const Workers& workers, DType activations, const Pool2dDesc& desc);

}  // namespace ddp
