#include "core/error.h"
#include "ops/cuda/cuda_ops.h"

namespace ddp {

CudaOps::CudaOps(Device& device, const CudaOpsConfig& config)
    : context_(device, config), cudnn_(load_cudnn(context_)), cublas_(load_cublas()) {
  reserve_softmax(context_);
  reserve_sum_of_squares(context_);
  reserve_channel_sums(context_);
}

void CudaOps::reorder(const Tensor& from, const Tensor& to) {
  DDP_EXPECT(from.format == to.format && from.format == Format{} && from.dtype == to.dtype);
  const size_t bytes = from.shape.elements() * size_of(from.dtype);
  DDP_CUDA(cudaMemcpyAsync(to.data, from.data, bytes, cudaMemcpyDeviceToDevice, context_.stream));
}

std::string describe_cuda_ops() { return describe_cudnn() + ", " + describe_cublas(); }

std::unique_ptr<Ops> make_cuda_ops(Device& device, const CudaOpsConfig& config) {
  return std::make_unique<CudaOps>(device, config);
}

}  // namespace ddp
