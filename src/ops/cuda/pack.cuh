// Packs for vectorized memory access: a thread loads and stores a pack of f32 or bf16 elements, in accesses of at most
// 16 bytes, and computes in f32.
#pragma once

#include "core/dtype.h"
#include "device/cuda/kernel.h"
#include "device/cuda/launch.h"
#include "device/tensor.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ddp {

using Bf16 = __nv_bfloat16;

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 2 * 8 * 132;  // two full waves on an H200; kernels loop over further elements

inline int64_t blocks_over(int64_t items) { return std::min(blocks_for(items, kThreads), kMaxBlocks); }

__device__ inline unsigned grid_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline unsigned grid_threads() { return gridDim.x * blockDim.x; }

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(Bf16 value) { return __bfloat162float(value); }
__device__ inline void from_float(float value, float& to) { to = value; }
__device__ inline void from_float(float value, Bf16& to) { to = __float2bfloat16_rn(value); }

template <int N, class T>
__device__ Pack<T, N> load_raw(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <class T, int N>
__device__ Pack<float, N> to_floats(const Pack<T, N>& raw) {
  Pack<float, N> values;
  for (int k = 0; k < N; ++k) values.at[k] = to_float(raw.at[k]);
  return values;
}

template <int N, class T>
__device__ Pack<float, N> load(const T* from) {
  return to_floats(load_raw<N>(from));
}

// Returns the stored values, which are rounded for bf16.
template <int N, class T>
__device__ Pack<T, N> store(T* to, const Pack<float, N>& values) {
  Pack<T, N> raw;
  for (int k = 0; k < N; ++k) from_float(values.at[k], raw.at[k]);
  *reinterpret_cast<Pack<T, N>*>(to) = raw;
  return raw;
}

// Packs of f32 that blocks exchange (last_block() in ops/cuda/reduce.cuh).
template <int N>
__device__ void store_shared(float* to, const Pack<float, N>& values) {
  if constexpr (N % 4 == 0)
    for (int k = 0; k < N; k += 4)
      __stcg(reinterpret_cast<float4*>(to + k),
             make_float4(values.at[k], values.at[k + 1], values.at[k + 2], values.at[k + 3]));
  else
    for (int k = 0; k < N; ++k) __stcg(to + k, values.at[k]);
}
template <int N>
__device__ Pack<float, N> load_shared(const float* from) {
  if constexpr (N == 4) {
    const float4 pack = __ldcg(reinterpret_cast<const float4*>(from));
    return {{pack.x, pack.y, pack.z, pack.w}};
  } else {
    static_assert(N == 1);
    return {{__ldcg(from)}};
  }
}

// Calls body<N>(i) for elements i to i+N-1 of `count`, with `threads` threads: in packs of W, then single elements.
template <int W, class Body>
__device__ void each_pack(int64_t count, int64_t thread, int64_t threads, const Body& body) {
  const int64_t packs = count / W;
  for (int64_t i = thread; i < packs; i += threads) body.template operator()<W>(i * W);
  for (int64_t i = packs * W + thread; i < count; i += threads) body.template operator()<1>(i);
}
template <int W, class Body>
__device__ void each_pack(int64_t count, const Body& body) {
  each_pack<W>(count, grid_thread(), grid_threads(), body);
}

template <class T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

template <class... T>
bool aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// The largest pack whose width divides `count`, in elements.
constexpr int pack_width(DType type, int64_t count) {
  int width = type == DType::bf16 ? 8 : 4;
  while (count % width != 0) width /= 2;
  return width;
}

// The pack width for loops that handle a tail: the count does not limit it, only the alignment does.
inline int width_of(DType type, bool aligned) { return aligned ? pack_width(type, 0) : 1; }

// Calls f<T, N>() for the type and the pack width.
template <class F>
void with_packs(DType type, int width, F&& f) {
  if (type == DType::bf16) {
    switch (width) {
      case 8: return f.template operator()<Bf16, 8>();
      case 4: return f.template operator()<Bf16, 4>();
      case 2: return f.template operator()<Bf16, 2>();
      default: return f.template operator()<Bf16, 1>();
    }
  }
  switch (width) {
    case 4: return f.template operator()<float, 4>();
    case 2: return f.template operator()<float, 2>();
    default: return f.template operator()<float, 1>();
  }
}

}  // namespace ddp
