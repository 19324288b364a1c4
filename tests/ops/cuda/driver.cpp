// Takes the place of the driver's library, libcuda.so.1, where cuDNN compiles kernels without a driver: it accepts each
// compiled kernel and runs none.
#include <cstdint>

namespace {

uint64_t something[8];  // what handles point to

}  // namespace

extern "C" {

int cuInit(unsigned) { return 34; }  // CUDA_ERROR_STUB_LIBRARY
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = something;
  return 0;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = something;
  return 0;
}
int cuKernelGetFunction(void** function, void*) {
  *function = something;
  return 0;
}
// cuDNN chooses no kernel of Hopper's instructions where clusters of blocks do not fit.
int cuOccupancyMaxPotentialClusterSize(int* blocks, void*, const void*) {
  *blocks = 8;
  return 0;
}
int cuOccupancyMaxActiveClusters(int* clusters, void*, const void*) {
  *clusters = 16;
  return 0;
}
int cuGetErrorName(int, const char** text) {
  *text = "unknown";
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "not in this library";
  return 0;
}

#define DDP_DOES_NOTHING(name) \
  int name() { return 0; }
DDP_DOES_NOTHING(cuCtxGetCurrent)
DDP_DOES_NOTHING(cuCtxGetLimit)
DDP_DOES_NOTHING(cuCtxPopCurrent)
DDP_DOES_NOTHING(cuCtxPushCurrent)
DDP_DOES_NOTHING(cuDeviceGet)
DDP_DOES_NOTHING(cuKernelGetAttribute)
DDP_DOES_NOTHING(cuKernelSetAttribute)
DDP_DOES_NOTHING(cuLaunchCooperativeKernel)
DDP_DOES_NOTHING(cuLaunchKernel)
DDP_DOES_NOTHING(cuLaunchKernelEx)
DDP_DOES_NOTHING(cuLibraryLoadFromFile)
DDP_DOES_NOTHING(cuLibraryUnload)
DDP_DOES_NOTHING(cuLinkAddData)
DDP_DOES_NOTHING(cuLinkComplete)
DDP_DOES_NOTHING(cuLinkCreate)
DDP_DOES_NOTHING(cuLinkDestroy)
DDP_DOES_NOTHING(cuStreamGetCtx)

}  // extern "C"
