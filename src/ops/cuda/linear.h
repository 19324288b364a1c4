// Linear layers by cuBLASLt, with bias and ReLU in its epilogue.
#pragma once

#include "ops/cuda/context.h"
#include "ops/linear.h"

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace ddp {

using LinearMaker = std::function<std::unique_ptr<Linear>(const LinearDesc&, std::span<const int64_t> batch_sizes)>;

// Loads cuBLASLt; the maker keeps it loaded. The context outlives the maker and what it makes.
LinearMaker make_cublas(CudaContext& context);

std::string describe_cublas();  // "cuBLASLt 13.1.0"

}  // namespace ddp
