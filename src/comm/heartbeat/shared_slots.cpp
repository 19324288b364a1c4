#include "comm/heartbeat/shared_slots.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace ddp {
namespace {

constexpr const char* kSlotsName = "ddp_train heartbeats";

size_t bytes_of(int count) { return static_cast<size_t>(count) * sizeof(HeartbeatSlot); }

}  // namespace

SharedSlots::SharedSlots(int count) : SharedSlots(SharedMemory(kSlotsName, bytes_of(count)), count) {}

SharedSlots::SharedSlots(const Key& key, int count)
    : SharedSlots(SharedMemory(kSlotsName, key, bytes_of(count)), count) {}

SharedSlots::SharedSlots(SharedMemory memory, int count)
    : memory_(std::move(memory)), private_(memory_ ? 0 : count), slots_(private_) {
  if (memory_) slots_ = {reinterpret_cast<HeartbeatSlot*>(memory_.data()), static_cast<size_t>(count)};
}

ProcessHandle::ProcessHandle(int pid) {
  if (pid > 0) file_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));  // always close-on-exec
}

ProcessHandle::~ProcessHandle() {
  if (file_ >= 0) close(file_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

ProcessHandle& ProcessHandle::operator=(ProcessHandle&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

bool ProcessHandle::ended() const {
  pollfd entry{file_, POLLIN, 0};
  return file_ >= 0 && poll(&entry, 1, 0) == 1;
}

}  // namespace ddp
