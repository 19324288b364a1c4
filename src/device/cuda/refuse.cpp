#include "core/error.h"
#include "device/cuda/device.h"

namespace ddp {

std::unique_ptr<Device> make_cuda_device(int) {
  fail(Exit::device, "this program was built without CUDA; use --device cpu");
}

}  // namespace ddp
