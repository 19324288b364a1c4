// Cooperation of a kernel's threads.
#include "fixture.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ddp {
namespace {

constexpr int kThreads = 256;

__global__ void reverse(float* x) {
  __shared__ float tile[kThreads];
  float* block = x + blockIdx.x * blockDim.x;
  tile[threadIdx.x] = block[threadIdx.x];
  __syncthreads();
  block[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__global__ void shift_without_waiting(float* x, unsigned by) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = tile[(threadIdx.x + by) % blockDim.x];
}

enum class Fence { before_the_count, behind_the_count, none };

// The last block to finish adds the partial sums of all blocks and resets the counter.
__global__ void sum(const float* x, float* partial, unsigned* finished, float* total, Fence fence) {
  __shared__ float of_warp[kThreads / 32];
  __shared__ bool last;
  float value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffff, value, distance);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < kThreads / 32; ++i) value += of_warp[i];
  __stcg(partial + blockIdx.x, value);
  if (fence == Fence::before_the_count) __threadfence();
  last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
  if (fence == Fence::behind_the_count) __threadfence();
  if (!last) return;
  value = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) value += __ldcg(partial + i);
  *total = value;
}

__global__ void exchange(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int* mine = out + threadIdx.x * 8;
  mine[0] = __shfl_xor_sync(0xffffffff, lane, 3);
  mine[1] = __shfl_down_sync(0xffffffff, lane, 5);
  mine[2] = __shfl_up_sync(0xffffffff, lane, 5);
  mine[3] = __shfl_sync(0xffffffff, lane, 7);
  mine[4] = __shfl_sync(0xffffffff, lane, 1, 8);
  mine[5] = static_cast<int>(__ballot_sync(0xffffffff, lane % 2));
  mine[6] = __any_sync(0xffffffff, lane == 31) + 10 * __all_sync(0xffffffff, lane < 31);
  if (lane < 16)
    mine[7] = __shfl_sync(0x0000ffff, lane, 15);
  else
    mine[7] = -1;
}

__global__ void leave_early(int* out) {
  if (threadIdx.x >= 40) return;
  out[threadIdx.x] = __syncthreads_count(threadIdx.x < 10);
  if (threadIdx.x >= 35) return;
  const unsigned mask = threadIdx.x < 32 ? 0xffffffff : 0x7;
  out[threadIdx.x] += 1000 * static_cast<int>(__shfl_sync(mask, threadIdx.x, 0));
}

__global__ void position(unsigned* out) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], block * 1000 + thread);
}

__global__ void half_waits() {
  if (threadIdx.x < 16)
    __syncthreads();
  else
    __syncwarp();
}

TEST(Kernels, ThreadsWaitForEachOther) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Fixture fixture(seed);
    std::vector<float> values(fixture.count);
    std::iota(values.begin(), values.end(), 0.0f);
    ASSERT_EQ(cudaMemcpy(fixture.x, values.data(), fixture.count * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
    launch(fixture.a, 4, kThreads, reverse, fixture.x);
    const std::vector<float> reversed = fixture.read(fixture.x);
    for (size_t i = 0; i < fixture.count; ++i)
      ASSERT_EQ(reversed[i], static_cast<float>(i / kThreads * kThreads + kThreads - 1 - i % kThreads));
  }
}

// Without the barrier a thread reads a later or an earlier thread's value, depending on the order of threads.
TEST(Kernels, MissingBarrierIsDetected) {
  for (const unsigned by : {1, kThreads - 1}) {
    int seeds_with_many_wrong = 0;
    for (uint64_t seed = 0; seed < 16; ++seed) {
      Fixture fixture(seed);
      std::vector<float> values(fixture.count);
      std::iota(values.begin(), values.end(), static_cast<float>(1000 * seed));
      ASSERT_EQ(cudaMemcpy(fixture.x, values.data(), fixture.count * sizeof(float), cudaMemcpyHostToDevice),
                cudaSuccess);
      launch(fixture.a, 1, kThreads, shift_without_waiting, fixture.x, by);
      const std::vector<float> shifted = fixture.read(fixture.x);
      int wrong = 0;
      for (unsigned i = 0; i < kThreads; ++i) wrong += shifted[i] != values[(i + by) % kThreads];
      seeds_with_many_wrong += wrong > kThreads / 2;
    }
    EXPECT_GT(seeds_with_many_wrong, 0) << "shifted by " << by;
  }
}

TEST(Kernels, ReductionOverBlocks) {
  Fixture fixture;
  unsigned* finished = nullptr;
  ASSERT_EQ(cudaMalloc(&finished, sizeof(unsigned)), cudaSuccess);
  ASSERT_EQ(cudaMemset(finished, 0, sizeof(unsigned)), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  launch(fixture.a, 4, kThreads, set, fixture.x, 1.5f);
  const auto total = [&](Fence fence) {
    launch(fixture.a, 1, kThreads, set, fixture.y, std::nanf(""));
    launch(fixture.a, 4, kThreads, sum, fixture.x, fixture.y, finished, fixture.y + 100, fence);
    return fixture.read(fixture.y)[100];
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(total(Fence::before_the_count), 1024 * 1.5f);
    EXPECT_TRUE(std::isnan(total(Fence::behind_the_count)));
    EXPECT_TRUE(std::isnan(total(Fence::none)));
  }
  ASSERT_EQ(cudaFree(finished), cudaSuccess);
}

enum class Synchronize { at_the_start, behind_a_load, behind_a_store, never };

// y = 2x + 1
__global__ void map_early(const float* x, float* y, Synchronize when) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (when == Synchronize::at_the_start) cudaGridDependencySynchronize();
  const float value = 2 * x[i] + 1;
  if (when == Synchronize::behind_a_load) cudaGridDependencySynchronize();
  y[i] = value;
  if (when == Synchronize::behind_a_store) cudaGridDependencySynchronize();
}

// y = 1, x = 3, and with programmatic launches y = 2x + 1, x = 2y + 1; a graph of them twice. True if both are right.
bool maps_right(uint64_t seed, bool graph, Synchronize when) {
  Fixture fixture(seed);
  const auto issue = [&] {
    launch(fixture.a, 4, kThreads, set, fixture.y, 1.0f);
    launch(fixture.a, 4, kThreads, set, fixture.x, 3.0f);
    for (int i = 0; i < 2; ++i) {
      launch_programmatic(fixture.a, 4, kThreads, map_early, i == 0 ? fixture.x : fixture.y,
                          i == 0 ? fixture.y : fixture.x, when);
    }
  };
  if (graph) {
    cudaGraph_t made = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(fixture.a, cudaStreamCaptureModeRelaxed), cudaSuccess);
    issue();
    EXPECT_EQ(cudaStreamEndCapture(fixture.a, &made), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&exec, made, 0), cudaSuccess);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(exec, fixture.a), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(made), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  } else {
    issue();
  }
  const auto all = [](const std::vector<float>& values, float expected) {
    return std::ranges::all_of(values, [&](float value) { return value == expected; });
  };
  return all(fixture.read(fixture.y), 7) && all(fixture.read(fixture.x), 15);
}

int wrong_seeds(bool graph, Synchronize when) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) wrong += !maps_right(seed, graph, when);
  return wrong;
}

TEST(Kernels, ProgrammaticLaunchesKeepTheOrderOfMemory) {
  for (const bool graph : {false, true}) EXPECT_EQ(wrong_seeds(graph, Synchronize::at_the_start), 0);
}

TEST(Kernels, AnAccessBeforeTheGridSynchronizeIsDetected) {
  for (const bool graph : {false, true}) {
    EXPECT_GT(wrong_seeds(graph, Synchronize::behind_a_load), 0);
    EXPECT_GT(wrong_seeds(graph, Synchronize::behind_a_store), 0);
  }
}

TEST(KernelsDeathTest, AKernelWithoutAGridSynchronizeIsDetected) {
  EXPECT_DEATH(maps_right(0, false, Synchronize::never), "has not called cudaGridDependencySynchronize");
}

TEST(Kernels, WarpOperations) {
  Fixture fixture;
  int* out = nullptr;
  std::vector<int> host(64 * 8);
  ASSERT_EQ(cudaMalloc(&out, host.size() * sizeof(int)), cudaSuccess);
  launch(fixture.a, 1, 64, exchange, out);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), out, host.size() * sizeof(int), cudaMemcpyDeviceToHost, fixture.a),
            cudaSuccess);
  for (int thread = 0; thread < 64; ++thread) {
    const int lane = thread % 32;
    const int expected[8] = {lane ^ 3,
                             lane + 5 < 32 ? lane + 5 : lane,
                             lane >= 5 ? lane - 5 : lane,
                             7,
                             lane / 8 * 8 + 1,
                             static_cast<int>(0xaaaaaaaa),
                             1,
                             lane < 16 ? 15 : -1};
    for (int i = 0; i < 8; ++i) EXPECT_EQ(host[thread * 8 + i], expected[i]) << "lane " << lane << ", value " << i;
  }
  ASSERT_EQ(cudaFree(out), cudaSuccess);
}

TEST(Kernels, BarriersIgnoreReturnedThreads) {
  Fixture fixture;
  int* out = nullptr;
  std::vector<int> host(40);
  ASSERT_EQ(cudaMalloc(&out, 40 * sizeof(int)), cudaSuccess);
  launch(fixture.a, 1, 100, leave_early, out);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), out, 40 * sizeof(int), cudaMemcpyDeviceToHost, fixture.a), cudaSuccess);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(host[i], i < 32 || i >= 35 ? 10 : 32010) << i;
  ASSERT_EQ(cudaFree(out), cudaSuccess);
}

TEST(Kernels, EveryPositionRunsOnce) {
  Fixture fixture;
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  std::vector<unsigned> host(12 * 30);
  unsigned* out = nullptr;
  ASSERT_EQ(cudaMalloc(&out, host.size() * sizeof(unsigned)), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(out, 0, host.size() * sizeof(unsigned), fixture.a), cudaSuccess);
  launch(fixture.a, grid, block, position, out);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), out, host.size() * sizeof(unsigned), cudaMemcpyDeviceToHost, fixture.a),
            cudaSuccess);
  for (unsigned i = 0; i < host.size(); ++i) EXPECT_EQ(host[i], i / 30 * 1000 + i % 30);
  ASSERT_EQ(cudaFree(out), cudaSuccess);

  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(1025);
  EXPECT_EQ(cudaLaunchKernelEx(&config, position, out), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(KernelsDeathTest, StuckThreadsAreReported) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Fixture fixture;
        launch(fixture.a, 1, 32, half_waits);
        cudaStreamSynchronize(fixture.a);
      },
      "stuck in block \\(0, 0, 0\\) of 32 threads.*16 at __syncthreads, 16 at a warp operation, 0 have returned");
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(sizeof(__nv_bfloat16), 2u);
  EXPECT_EQ(__bfloat162float(__float2bfloat16(1.0f)), 1.0f);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(__uint_as_float(0x3f808000))), 0x3f80);  // tie to even
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(__uint_as_float(0x3f818000))), 0x3f82);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(__uint_as_float(0x3f808001))), 0x3f81);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(__uint_as_float(0x7f7fffff))), 0x7f80);  // rounds to infinity
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16(__uint_as_float(0x7f800001)))));
  const float2 pair = __bfloat1622float2(__floats2bfloat162_rn(-2.0f, 0.5f));
  EXPECT_EQ(pair.x, -2.0f);
  EXPECT_EQ(pair.y, 0.5f);
}

}  // namespace
}  // namespace ddp
