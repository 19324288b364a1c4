#include "device/cuda/device.h"
#include "ops/cuda/ops.h"
#include "tests/ops/backend.h"

namespace ddp::testing {

std::vector<Backend> backends() {
  // A library may add all products of a weight's gradient in one chain.
  const Backend fp32{.name = "gpu_fp32", .kind = Backend::Kind::gpu, .offsets = {0, 1}, .weights_per_root = 0x1p-24};
  Backend tf32 = fp32, bf16 = fp32;
  tf32.name = "gpu_tf32";
  tf32.precision = Precision::tf32;
  tf32.products = tf32.weights = 2e-3;
  bf16.name = "gpu_bf16";
  bf16.precision = Precision::bf16;
  bf16.parameters = DType::bf16;
  bf16.products = bf16.weights = 2e-2;
  bf16.activations = 1e-2;
  return {fp32, tf32, bf16};
}

std::unique_ptr<Device> make_device(const Backend&) { return make_cuda_device({}); }

std::unique_ptr<Ops> make_ops(Device& device, const Backend& backend, int) {
  return make_cuda_ops(device, {.precision = backend.precision, .deterministic = backend.deterministic});
}

void each_convolution(Device& device, const Backend& backend, Conv2dDesc desc, int64_t n,
                      const std::function<void(ddp::Conv2d&, Format, const ConvBounds&)>& check) {
  const int64_t sizes[] = {n, n + 1};
  const auto ops = make_ops(device, backend, 1);
  const auto conv = ops->conv2d(desc, sizes);
  ASSERT_EQ(conv->output_format(), Format{});
  check(*conv, {}, {backend.products});
}

}  // namespace ddp::testing
