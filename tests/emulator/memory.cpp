#include "emulator/emulator.h"
#include "streams.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace emulator {
namespace {

enum class Kind { pageable, pinned, device };

struct Block {
  size_t bytes;
  Kind kind;
};

// Freed blocks of these sizes are kept for the next allocation of their size. New pages cost page faults, and each rank
// of each small training allocates a workspace of 32 MB.
constexpr size_t kLeastKept = size_t{1} << 20, kMostKept = size_t{64} << 20;

struct Memory {
  std::mutex mutex;
  std::map<const char*, Block> blocks;
  std::multimap<size_t, void*> kept;
  size_t total = size_t{139} << 30;
  size_t used = 0;
};

Memory& memory() {
  static Memory& memory = *new Memory;
  return memory;
}

// The kind of memory of a range; invalid if the range exceeds its allocation.
struct Place {
  Kind kind = Kind::pageable;
  bool valid = true;
};

Place place_of(const void* address, size_t bytes) {
  const std::lock_guard guard(memory().mutex);
  const char* begin = static_cast<const char*>(address);
  auto after = memory().blocks.upper_bound(begin);
  if (after == memory().blocks.begin()) return {};
  const auto& [start, block] = *std::prev(after);
  if (begin >= start + block.bytes) return {};
  return {block.kind, begin + bytes <= start + block.bytes};
}

cudaError_t refuse() {
  const auto lock = Scheduler::lock();
  const cudaError_t error = refuse_in_capture();
  return error ? report(error) : cudaSuccess;
}

// The address sanitizer reports accesses to a kept block as it reports those to freed memory.
void* take(size_t bytes) {
  const auto kept = memory().kept.find(bytes);
  if (kept == memory().kept.end()) return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  void* const address = kept->second;
  memory().kept.erase(kept);
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(address, bytes);
#endif
  return address;
}

void give_back(void* address, size_t bytes) {
  if (!computes() || bytes < kLeastKept || bytes > kMostKept) return std::free(address);
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(address, bytes);
#endif
  memory().kept.emplace(bytes, address);
}

cudaError_t allocate(void** result, size_t bytes, Kind kind) {
  if (!result) return report(cudaErrorInvalidValue);
  *result = nullptr;
  if (const cudaError_t error = refuse()) return error;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard guard(memory().mutex);
  if (kind == Kind::device && bytes > memory().total - memory().used) return report(cudaErrorMemoryAllocation);
  void* address = take(bytes);
  if (!address) return report(cudaErrorMemoryAllocation);
  if (computes() || kind != Kind::device) std::memset(address, 0xFF, bytes);
  memory().blocks[static_cast<const char*>(address)] = {bytes, kind};
  if (kind == Kind::device) memory().used += bytes;
  *result = address;
  return cudaSuccess;
}

cudaError_t deallocate(void* address, Kind kind) {
  if (!address) return cudaSuccess;
  if (const cudaError_t error = refuse()) return error;
  const std::lock_guard guard(memory().mutex);
  const auto block = memory().blocks.find(static_cast<const char*>(address));
  if (block == memory().blocks.end() || block->second.kind != kind) return report(cudaErrorInvalidValue);
  const size_t bytes = block->second.bytes;
  if (kind == Kind::device) memory().used -= bytes;
  memory().blocks.erase(block);
  give_back(address, bytes);
  return cudaSuccess;
}

// Aborts if a copy uses memory that was freed before the copy ran: the copy would corrupt other data.
void expect_valid(const void* address, size_t bytes, Kind kind) {
  const Place place = place_of(address, bytes);
  if (place.valid && place.kind == kind) return;
  std::fprintf(stderr, "emulator: %zu bytes at %p were freed before the work that uses them ran\n", bytes, address);
  std::abort();
}

bool matches(cudaMemcpyKind kind, Kind to, Kind from) {
  const bool to_device = to == Kind::device, from_device = from == Kind::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    default: return true;
  }
}

}  // namespace

void set_memory(size_t bytes) {
  const std::lock_guard guard(memory().mutex);
  memory().total = bytes;
}

}  // namespace emulator

using namespace emulator;

cudaError_t cudaMalloc(void** result, size_t bytes) { return allocate(result, bytes, Kind::device); }
cudaError_t cudaMallocHost(void** result, size_t bytes, unsigned) { return allocate(result, bytes, Kind::pinned); }
cudaError_t cudaHostAlloc(void** result, size_t bytes, unsigned) { return allocate(result, bytes, Kind::pinned); }
cudaError_t cudaFreeHost(void* address) { return deallocate(address, Kind::pinned); }

// Frees after all issued work, as CUDA does.
cudaError_t cudaFree(void* address) {
  if (!address) return cudaSuccess;
  if (const cudaError_t error = cudaDeviceSynchronize()) return error;
  return deallocate(address, Kind::device);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (place_of(host, 1).kind != Kind::pinned) return report(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard guard(memory().mutex);
  *free = memory().total - memory().used;
  *total = memory().total;
  return cudaSuccess;
}

// Memory is read and written when the copy runs, pageable sources too: a GPU that can access them may do so. A call
// whose destination is pageable waits for the copy.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place target = place_of(to, bytes), source = place_of(from, bytes);
  if (!to || !from || !target.valid || !source.valid) return report(cudaErrorInvalidValue);
  if (!matches(kind, target.kind, source.kind)) return report(cudaErrorInvalidMemcpyDirection);
  auto lock = Scheduler::lock();
  const bool pageable = target.kind == Kind::pageable || source.kind == Kind::pageable;
  if (pageable && stream && is_live(stream) && stream->capture)
    return report(invalidate(stream->capture, cudaErrorStreamCaptureUnsupported));

  count_copy();
  if (!computes() && target.kind == Kind::device && source.kind == Kind::device) return submit(stream, {});
  const auto copy = [=] {
    if (target.kind != Kind::pageable) expect_valid(to, bytes, target.kind);
    if (source.kind != Kind::pageable) expect_valid(from, bytes, source.kind);
    std::memmove(to, from, bytes);
  };
  if (target.kind != Kind::pageable) return submit(stream, {copy, {}});
  TaskPtr task;
  if (const cudaError_t error = submit(stream, {copy, {}}, &task)) return error;
  Scheduler::finish(lock, task);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const cudaError_t error = refuse()) return error;
  if (const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr)) return error;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const Place place = place_of(address, bytes);
  if (!place.valid || place.kind == Kind::pageable) return report(cudaErrorInvalidValue);
  const auto lock = Scheduler::lock();
  count_copy();
  if (!computes()) return submit(stream, {});
  return submit(stream, {[=] {
                           expect_valid(address, bytes, place.kind);
                           std::memset(address, value, bytes);
                         },
                         {}});
}

cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  if (const cudaError_t error = refuse()) return error;
  return cudaMemsetAsync(address, value, bytes, nullptr);
}
