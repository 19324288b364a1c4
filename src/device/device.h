// Where memory lives and how work is ordered. One Device belongs to one rank; all its work runs in the order issued.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

namespace ddp {

class Device {
 public:
  virtual ~Device() = default;

  // The processor's name, as the closing line prints it.
  virtual std::string name() const = 0;

  // 64-byte aligned and zeroed; throws Error(Exit::device) with the size when there is not enough. Never in a step.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory) noexcept = 0;

  // Ordered after the work issued so far. `upload` keeps no reference to `host`; `download` may return before `host` is
  // filled, which it is once a mark issued after it has been read, or synchronize() has returned.
  virtual void upload(void* device, const void* host, size_t bytes) = 0;
  virtual void download(void* host, const void* device, size_t bytes) = 0;
  virtual void zero(void* device, size_t bytes) = 0;
  virtual void synchronize() = 0;

  // Time stamps taken by the device when the work issued so far is done. Slots 0 to kMarks-1, overwritten freely;
  // reading one waits for it.
  static constexpr int kMarks = 16;
  virtual void mark(int slot) = 0;
  virtual double milliseconds(int from, int to) = 0;

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
