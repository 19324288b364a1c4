#include "emulator/emulator.h"
#include "streams.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>

namespace emulator {
namespace {

std::atomic<int> device_count = 1, capability = 90, cache = 50 << 20;
std::atomic<uint64_t> seed = 0;
std::atomic<uint64_t> drawn = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

constexpr int kVersion = 13000;
constexpr size_t kSharedMemory = 48 << 10;

bool exists(int device) { return device >= 0 && device < device_count; }

}  // namespace

cudaError_t report(cudaError_t error) { return last_error = error; }

void set_seed(uint64_t value) {
  seed = value;
  drawn = 0;
}

// SplitMix64.
uint64_t draw() {
  uint64_t z = seed * 0xD1B54A32D192ED03u + (drawn++ + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void set_device_count(int count) { device_count = count; }
void set_capability(int value) { capability = value; }
void set_cache(int bytes) { cache = bytes; }

}  // namespace emulator

using namespace emulator;

cudaError_t cudaPeekAtLastError() { return last_error; }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

#define EMULATOR_ERRORS(X)                                                                                 \
  X(cudaSuccess, "no error")                                                                               \
  X(cudaErrorInvalidValue, "invalid argument")                                                             \
  X(cudaErrorMemoryAllocation, "out of memory")                                                            \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")                                       \
  X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                                  \
  X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version")           \
  X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                               \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                                                      \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                             \
  X(cudaErrorIllegalState, "the operation cannot be performed in the present state")                       \
  X(cudaErrorNotReady, "device not ready")                                                                 \
  X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                                   \
  X(cudaErrorIllegalInstruction, "an illegal instruction was encountered")                                 \
  X(cudaErrorMisalignedAddress, "misaligned address")                                                      \
  X(cudaErrorLaunchFailure, "unspecified launch failure")                                                  \
  X(cudaErrorNotPermitted, "operation not permitted")                                                      \
  X(cudaErrorNotSupported, "operation not supported")                                                      \
  X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")                 \
  X(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture")          \
  X(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences")        \
  X(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began")               \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                                  \
  X(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream")            \
  X(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing stream") \
  X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream")     \
  X(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture from another thread")  \
  X(cudaErrorUnknown, "unknown error")

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define EMULATOR_NAME(name, text) \
  case name: return #name;
    EMULATOR_ERRORS(EMULATOR_NAME)
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define EMULATOR_TEXT(name, text) \
  case name: return text;
    EMULATOR_ERRORS(EMULATOR_TEXT)
  }
  return "unrecognized error code";
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (device_count == 0) return report(cudaErrorNoDevice);
  *count = device_count;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return report(device_count == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return report(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->uuid.bytes[15] = static_cast<char>(device);
  size_t free = 0;
  cudaMemGetInfo(&free, &properties->totalGlobalMem);
  properties->sharedMemPerBlock = properties->sharedMemPerBlockOptin = kSharedMemory;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->major = capability / 10;
  properties->minor = capability % 10;
  properties->multiProcessorCount = 132;
  properties->l2CacheSize = cache;
  properties->memoryBusWidth = 6144;
  properties->canMapHostMemory = properties->unifiedAddressing = properties->concurrentKernels = 1;
  properties->asyncEngineCount = 3;
  properties->pciBusID = 0x10 + device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!exists(device)) return report(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kSharedMemory; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = 32; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = 132; return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = capability / 10; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = capability % 10; return cudaSuccess;
  }
  return report(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!exists(device)) return report(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
