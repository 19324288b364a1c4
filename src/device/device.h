// A device owns memory and orders work. Each rank has one Device; its work runs in the order of issue. The device is
// the source of its own memory.
#pragma once

#include "device/graph_cache.h"
#include "device/memory.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace ddp {

class RangeObserver {
 public:
  virtual ~RangeObserver() = default;
  virtual void begin(const char* name) noexcept = 0;
  virtual void end() noexcept = 0;
};

class Device : public Memory {
 public:
  // The name of the processor; the last line of a run prints it.
  virtual std::string name() const = 0;

  // Whether host memory is device memory.
  virtual bool is_host() const = 0;

  // Memory of a device that is not the host: bytes of all calls of allocate() so far, and bytes that are free.
  struct MemoryUse {
    int64_t allocated = 0, free = 0;
  };
  virtual MemoryUse memory_use() const { return {}; }

  // Host memory for asynchronous copies (pinned with CUDA).
  virtual Memory& host_memory() = 0;

  // Copies, ordered after the work issued so far. Memory of host_memory() must not change until the copy is done, that
  // is, until a fence set after the copy is passed. Other host memory is free to change when the call returns.
  virtual void upload(void* device, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const void* device, size_t bytes) = 0;

  // Copies before the work issued from now on. Not ordered after earlier work: the copy may run at the same time.
  virtual void upload_ahead(void* device, const void* host, size_t bytes) = 0;

  virtual void zero(void* device, size_t bytes) = 0;
  virtual void synchronize() = 0;

  // Waits before the caller frees memory that the device may still use. Ignores errors: after an error no work runs.
  void quiesce() noexcept {
    try {
      synchronize();
    } catch (...) {
    }
  }

  // A fence marks a point in the order of work. There are slots 0 to kFences-1; a slot can be set again at any time.
  // await() blocks the host until the work issued before the last fence(slot) is done; passed() tells whether that work
  // is done. A fence that was never set counts as passed.
  static constexpr int kFences = 32;
  virtual void fence(int slot) = 0;
  virtual void await(int slot) = 0;
  virtual bool passed(int slot) = 0;

  // Writes the device's clock to *nanoseconds, in device memory, when the work issued so far is done. A later download
  // waits for the write; other later work does not.
  virtual void timestamp(int64_t* nanoseconds) = 0;

  // Nested ranges of issued work, for the profiler and for one observer, which may be null (see
  // device/profile_range.h).
  void begin_range(const char* name) noexcept {
    begin_profiler_range(name);
    if (ranges_) ranges_->begin(name);
  }
  void end_range() noexcept {
    if (ranges_) ranges_->end();
    end_profiler_range();
  }
  void observe_ranges(RangeObserver* observer) { ranges_ = observer; }

  // The recorded graphs hold pointers: destroy the cache before the memory that its work uses.
  virtual std::unique_ptr<GraphCache> graph_cache() = 0;

  // Ops call poll() between pieces of work of at most a few hundred microseconds. The owner sets a function that
  // advances communication. Only the rank's own thread calls poll().
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  void poll() const {
    if (poll_) poll_();
  }

 private:
  // A device without a profiler ignores the ranges.
  virtual void begin_profiler_range(const char*) noexcept {}
  virtual void end_profiler_range() noexcept {}

  std::function<void()> poll_;
  RangeObserver* ranges_ = nullptr;
};

}  // namespace ddp
