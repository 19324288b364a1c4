// Linear layers with cuBLASLt; the epilogue adds the bias and applies the ReLU.
#pragma once

#include "ops/cuda/context.h"
#include "ops/linear.h"

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace ddp {

using LinearMaker = std::function<std::unique_ptr<Linear>(const LinearDesc&, std::span<const int64_t> batch_sizes)>;

// Loads cuBLASLt; the maker and its layers keep it loaded. The context outlives both. Throws Error(Exit::device).
LinearMaker make_cublas(CudaContext& context);

std::string describe_cublas();  // such as "cuBLASLt 13.1.0"

}  // namespace ddp
