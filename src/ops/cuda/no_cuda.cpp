#include "core/error.h"
#include "ops/cuda/ops.h"

namespace ddp {

std::string describe_cuda_ops() { return "built without CUDA"; }

std::vector<LibraryVersion> cuda_ops_libraries() { return {}; }

std::unique_ptr<Ops> make_cuda_ops(Device&, const CudaOpsConfig&) {
  fail(Exit::device, "this program was built without CUDA; use --device cpu");
}

}  // namespace ddp
