// The slots of a heartbeat table in memory that the processes of a host share. The memory is anonymous (memfd): it
// leaves no file behind, however the processes end, and does not need /dev/shm. If a process cannot map the memory
// (other user, other process namespace, no /proc), it gets private memory and sees only its own heartbeats.
#pragma once

#include "comm/heartbeat/heartbeat_slot.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

// Opens the anonymous memory of another process: its open file `file`, which memfd_create() has made with this `name`.
// Returns -1, and opens nothing, if the file is something else: the number may mean another process here. Returns -1
// too if the memory may still shrink, which would kill a process that reads it.
int open_memory_of(int pid, int file, const char* name, int flags);

class SharedSlots {
 public:
  struct Key {  // tells other processes how to map the memory; sent as bytes
    int32_t pid = 0, file = -1;
    uint64_t mark = 0;  // random number at the start of the memory, to recognise it
  };

  explicit SharedSlots(int count);         // creates `count` zeroed slots
  SharedSlots(const Key& key, int count);  // maps another process's slots, before it calls hide(); else private slots
  ~SharedSlots();
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  Key key() const;
  void hide();  // no other process can map the slots from now on
  std::span<HeartbeatSlot> slots() const;

 private:
  struct Head {
    uint64_t mark;
    char unused[56];
  };
  bool map(int file);
  void make_private();
  Head* head() const { return static_cast<Head*>(memory_); }

  int count_, file_ = -1;
  size_t bytes_;
  void* memory_ = nullptr;
  bool shared_ = false;
};

// Tells whether a process of this host has ended, also a process that is not a child of this one or is not yet reaped
// (pidfd). If the kernel has no pidfd, ended() is always false.
class ProcessHandle {
 public:
  explicit ProcessHandle(int pid = 0);  // 0: no process
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  bool ended() const;  // any thread may call this

 private:
  int file_ = -1;
};

}  // namespace ddp
