#include "device/cuda/device.h"
#include "ops/cuda/ops.h"
#include "tests/ops/backend.h"

namespace ddp::testing {

std::vector<Backend> backends() {
  const Backend f32{.name = "emulated_f32", .kind = Backend::Kind::emulated, .offsets = {0, 1}};
  Backend bf16 = f32;
  bf16.name = "emulated_bf16";
  bf16.precision = Precision::bf16;
  bf16.activations = 0;
  return {f32, bf16};
}

std::unique_ptr<Device> make_device(const Backend&) { return make_cuda_device({}); }

std::unique_ptr<Ops> make_ops(Device& device, const Backend& backend, int) {
  return make_cuda_ops(device, {.precision = backend.precision, .deterministic = false, .agree = {}});
}

}  // namespace ddp::testing
