#include "device/cuda/device_query.h"

#include <cuda_runtime.h>

#include <array>

namespace ddp {
namespace {

LibraryVersion::Number number_of(int version) { return {version / 1000, version % 1000 / 10, 0}; }

// Clears an error, because the next CUDA call would report it again.
bool succeeds(cudaError_t result) {
  if (result != cudaSuccess) cudaGetLastError();
  return result == cudaSuccess;
}

}  // namespace

LibraryVersion::Number cuda_driver_version() {
  int version = 0;
  return succeeds(cudaDriverGetVersion(&version)) ? number_of(version) : LibraryVersion::Number{};
}

std::vector<LibraryVersion> cuda_device_libraries() {
  int version = 0;
  if (!succeeds(cudaRuntimeGetVersion(&version))) version = 0;
  return {{"CUDA", number_of(CUDART_VERSION), number_of(version)}};
}

std::vector<std::string> unreachable_cuda_peers(int index) {
  int count = 0;
  if (!succeeds(cudaGetDeviceCount(&count))) count = 0;
  std::vector<std::string> peers;
  for (int other = 0; other < count; ++other) {
    int reachable = 0;
    if (other == index || !succeeds(cudaDeviceCanAccessPeer(&reachable, index, other)) || reachable != 0) continue;
    std::array<char, 64> bus{};
    if (succeeds(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), other))) peers.push_back(bus.data());
  }
  return peers;
}

}  // namespace ddp
