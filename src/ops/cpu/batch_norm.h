// Batch normalisation on the CPU (ops/batch_norm.h), for all formats, in f32 or bf16. Partial sums are added in double.
#pragma once

#include "core/dtype.h"
#include "ops/batch_norm.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<BatchNorm> make_cpu_batch_norm(const Workers& workers, DType activations, const BatchNormDesc& desc,
                                               std::span<const int64_t> batch_sizes);

}  // namespace ddp
