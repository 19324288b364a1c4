// Shared by the emulator's tests.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ddp {

struct Fixture {
  explicit Fixture(uint64_t seed = 1, size_t count_ = 1024) : count(count_) {
    emulator::set_seed(seed);
    EXPECT_EQ(cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -1), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&x, count * sizeof(float)), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&y, count * sizeof(float)), cudaSuccess);
  }
  ~Fixture() {
    EXPECT_EQ(cudaFree(x), cudaSuccess);
    EXPECT_EQ(cudaFree(y), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(joined), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b), cudaSuccess);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::vector<float> read(const float* device) const {
    std::vector<float> host(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

  void order(cudaStream_t later, cudaStream_t earlier, cudaEvent_t by) const {
    EXPECT_EQ(cudaEventRecord(by, earlier), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(later, by), cudaSuccess);
  }

  size_t count;
  cudaStream_t a = nullptr, b = nullptr;
  cudaEvent_t event = nullptr, joined = nullptr;
  float *x = nullptr, *y = nullptr;
};

// With an attribute, or none.
template <class... Parameters, class... Arguments>
void launch_with(cudaLaunchAttribute* attribute, cudaStream_t stream, dim3 blocks, dim3 threads,
                 void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = attribute ? 1 : 0;
  EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), cudaSuccess);
}

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...), Arguments... arguments) {
  launch_with(nullptr, stream, blocks, threads, kernel, arguments...);
}

template <class... Parameters, class... Arguments>
void launch_programmatic(cudaStream_t stream, dim3 blocks, dim3 threads, void (*kernel)(Parameters...),
                         Arguments... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  launch_with(&early, stream, blocks, threads, kernel, arguments...);
}

inline __global__ void set(float* x, float value) { x[blockIdx.x * blockDim.x + threadIdx.x] = value; }

// y = 2x + 1
inline __global__ void map(const float* x, float* y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i] + 1;
}

}  // namespace ddp
