#include "ops/cuda/ops.h"

#include <cudnn.h>

namespace ddp {

std::vector<LibraryVersion> cuda_ops_libraries() {
  const auto number_of = [](size_t version) {
    const auto number = static_cast<int>(version);  // 91900
    return LibraryVersion::Number{number / 10000, number / 100 % 100, number % 100};
  };
  return {{"cuDNN", number_of(CUDNN_VERSION), number_of(cudnnGetVersion())}};
}

}  // namespace ddp
