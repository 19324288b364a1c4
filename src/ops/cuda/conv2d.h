// Convolutions with cuDNN's graph API, in NHWC.
#pragma once

#include "ops/conv2d.h"
#include "ops/cuda/context.h"

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace ddp {

using Conv2dMaker = std::function<std::unique_ptr<Conv2d>(const Conv2dDesc&, std::span<const int64_t> batch_sizes)>;

// Loads cuDNN; the maker and its convolutions keep it loaded. The context outlives both. Throws Error(Exit::device).
Conv2dMaker make_cudnn(CudaContext& context);

std::string describe_cudnn();  // such as "cuDNN 9.19.0"

}  // namespace ddp
