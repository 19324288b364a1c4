#include "core/error.h"
#include "device/cuda/device.h"
#include "device/cuda/device_query.h"

namespace ddp {
namespace {

constexpr const char* kReason = "this program was built without CUDA";

}  // namespace

int count_cuda_devices(std::string& why) {
  why = kReason;
  return 0;
}

CudaDeviceInfo cuda_device_info(int) { fail(Exit::device, "{}; use --device cpu", kReason); }

std::unique_ptr<Device> make_cuda_device(const CudaDeviceConfig&) {
  fail(Exit::device, "{}; use --device cpu", kReason);
}

LibraryVersion::Number cuda_driver_version() { return {}; }
std::vector<LibraryVersion> cuda_device_libraries() { return {}; }
std::vector<std::string> unreachable_cuda_peers(int) { return {}; }

}  // namespace ddp
