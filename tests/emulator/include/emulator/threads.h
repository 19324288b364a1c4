// Thread indices, barriers, warp operations and atomics of kernels. Threads of a block are fibers, so barriers and
// exchanges have their real effect.
#pragma once

#include "emulator/vectors.h"

#include <atomic>
#include <cstdint>
#include <cstring>

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
constexpr int warpSize = 32;

namespace emulator {

// A warp operation takes a value of each lane. It completes when all lanes of `mask` that have not returned arrive.
enum class WarpOp { sync, shuffle, ballot };
uint64_t warp_operation(WarpOp op, unsigned mask, uint64_t value, int source);
int lane_id();
// Returns the number of threads with a true `predicate`. Waits for all threads of the block that have not returned.
int block_barrier(bool predicate);
// An atomic operation: later ones see what the threads of the block have stored before their fences.
void release();
template <class T>
std::atomic_ref<T> atomic(T* address) {
  release();
  return std::atomic_ref(*address);
}

template <class T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_operation(WarpOp::shuffle, mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulator

inline void __syncthreads() { emulator::block_barrier(false); }
inline int __syncthreads_count(int predicate) { return emulator::block_barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return emulator::block_barrier(predicate != 0) > 0; }
inline void __syncwarp(unsigned mask = 0xffffffff) { emulator::warp_operation(emulator::WarpOp::sync, mask, 0, 0); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(emulator::warp_operation(emulator::WarpOp::ballot, mask, predicate != 0, 0));
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// A lane whose source lies outside its group of `width` lanes keeps its own value.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int first = emulator::lane_id() & ~(width - 1);
  return emulator::shuffle(mask, value, first | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  const int lane = emulator::lane_id(), source = lane ^ lane_mask;
  return emulator::shuffle(mask, value, source < (lane | (width - 1)) + 1 ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = emulator::lane_id(), source = lane + static_cast<int>(delta);
  return emulator::shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = emulator::lane_id(), source = lane - static_cast<int>(delta);
  return emulator::shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane);
}

// Of a programmatic launch: waits for the kernel in front. A kernel behind it may always begin early, so
// cudaTriggerProgrammaticLaunchCompletion() has nothing to do.
void cudaGridDependencySynchronize();
inline void cudaTriggerProgrammaticLaunchCompletion() {}

void __threadfence();
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }

#define EMULATOR_ATOMICS(type)                                                                            \
  inline type atomicAdd(type* address, type value) { return emulator::atomic(address).fetch_add(value); } \
  inline type atomicExch(type* address, type value) { return emulator::atomic(address).exchange(value); }
#define EMULATOR_INTEGER_ATOMICS(type)                                                    \
  EMULATOR_ATOMICS(type)                                                                  \
  inline type atomicCAS(type* address, type expected, type value) {                       \
    emulator::atomic(address).compare_exchange_strong(expected, value);                   \
    return expected;                                                                      \
  }                                                                                       \
  inline type atomicMax(type* address, type value) {                                      \
    type old = emulator::atomic(address).load();                                          \
    while (old < value && !std::atomic_ref(*address).compare_exchange_weak(old, value)) { \
    }                                                                                     \
    return old;                                                                           \
  }                                                                                       \
  inline type atomicMin(type* address, type value) {                                      \
    type old = emulator::atomic(address).load();                                          \
    while (value < old && !std::atomic_ref(*address).compare_exchange_weak(old, value)) { \
    }                                                                                     \
    return old;                                                                           \
  }                                                                                       \
  inline type atomicOr(type* address, type value) { return emulator::atomic(address).fetch_or(value); }
EMULATOR_ATOMICS(float)
EMULATOR_ATOMICS(double)
EMULATOR_INTEGER_ATOMICS(int)
EMULATOR_INTEGER_ATOMICS(unsigned)
EMULATOR_INTEGER_ATOMICS(unsigned long long)
#undef EMULATOR_ATOMICS
#undef EMULATOR_INTEGER_ATOMICS

// System scope on a GPU; here all atomics have it.
template <class T>
T atomicAdd_system(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
T atomicExch_system(T* address, T value) {
  return atomicExch(address, value);
}

// old >= limit ? 0 : old + 1
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  unsigned old = emulator::atomic(address).load();
  while (!std::atomic_ref(*address).compare_exchange_weak(old, old >= limit ? 0 : old + 1)) {
  }
  return old;
}
