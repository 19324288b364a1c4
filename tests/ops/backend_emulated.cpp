#include "device/cuda/device.h"
#include "ops/cuda/ops.h"
#include "tests/ops/backend.h"

namespace ddp::testing {

std::vector<Backend> backends() {
  const Backend f32{.name = "emulated_f32", .kind = Backend::Kind::emulated, .offsets = {0, 1}};
  Backend bf16 = f32;
  bf16.name = "emulated_bf16";
  bf16.precision = Precision::bf16;
  bf16.parameters = DType::bf16;
  bf16.activations = bf16.products = 0;
  bf16.weights = 1e-2;  // cuDNN computes the weight gradient in bf16
  return {f32, bf16};
}

std::unique_ptr<Device> make_device(const Backend&) { return make_cuda_device({}); }

std::unique_ptr<Ops> make_ops(Device& device, const Backend& backend, int) {
  return make_cuda_ops(device, {.precision = backend.precision, .deterministic = false});
}

void each_convolution(Device& device, const Backend& backend, Conv2dDesc desc, int64_t n,
                      const std::function<void(ddp::Conv2d&, Format, const ConvBounds&)>& check) {
  const int64_t sizes[] = {n, n + 1};
  const auto ops = make_ops(device, backend, 1);
  check(*ops->conv2d(desc, sizes), {}, {backend.products});
}

}  // namespace ddp::testing
