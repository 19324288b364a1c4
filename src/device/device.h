// Where memory lives and how work is ordered. One Device belongs to one rank; all its work runs in the order issued.
// It is itself the source of its own memory.
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

class Device : public Memory {
 public:
  // The processor's name, as the closing line prints it.
  virtual std::string name() const = 0;

  // Whether the host's memory is the device's.
  virtual bool is_host() const = 0;

  // Memory of the host that copies from and to without holding up the caller.
  virtual Memory& host_memory() = 0;

  // Ordered after the work issued so far. Memory of host_memory() must keep still until the copy is done, that is,
  // until a fence set after it has been passed; any other is done with when the call returns.
  virtual void upload(void* device, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const void* device, size_t bytes) = 0;

  // Ordered before the work issued from now on, but not after earlier work: it may run beside that.
  virtual void upload_ahead(void* device, const void* host, size_t bytes) = 0;

  virtual void zero(void* device, size_t bytes) = 0;
  virtual void synchronize() = 0;

  // Before memory that the device may still use is given back: waits, and where that fails there is nothing to wait
  // for.
  void quiesce() noexcept {
    try {
      synchronize();
    } catch (...) {
    }
  }

  // Points in the order of work, in slots 0 to kFences-1 that are set freely anew. `await` blocks the host until the
  // work issued before the fence was last set is done, `passed` tells whether it is; both are true of a fence never
  // set.
  static constexpr int kFences = 32;
  virtual void fence(int slot) = 0;
  virtual void await(int slot) = 0;
  virtual bool passed(int slot) = 0;

  // *nanoseconds, in device memory, becomes the device's clock when the work issued so far is done. Later work does not
  // wait for it, a later download does.
  virtual void timestamp(int64_t* nanoseconds) = 0;

  // For profilers (device/profile_range.h); nested. A device without any ignores them.
  virtual void begin_range(const char*) noexcept {}
  virtual void end_range() noexcept {}

  // Its recordings hold pointers: destroy it before what they point to.
  virtual std::unique_ptr<GraphCache> graph_cache() = 0;

  // Ops call `poll` between pieces of work of at most a few hundred microseconds; the owner hangs the progress of
  // communication on it. Called only from the rank's own thread.
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  void poll() const {
    if (poll_) poll_();
  }

 private:
  std::function<void()> poll_;
};

}  // namespace ddp
