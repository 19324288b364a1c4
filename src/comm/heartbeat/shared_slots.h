// The slots of a heartbeat table in memory that the processes of a host share (comm/shared_memory.h). If a process
// cannot map the memory, it gets private memory and sees only its own heartbeats.
#pragma once

#include "comm/heartbeat/heartbeat_slot.h"
#include "comm/shared_memory.h"

#include <span>
#include <vector>

namespace ddp {

class SharedSlots {
 public:
  using Key = SharedMemory::Key;

  explicit SharedSlots(int count);         // creates `count` zeroed slots
  SharedSlots(const Key& key, int count);  // maps another process's slots, before it calls hide(); else private slots

  Key key() const { return memory_.key(); }
  void hide() { memory_.hide(); }  // no other process can map the slots from now on
  std::span<HeartbeatSlot> slots() const { return slots_; }

 private:
  SharedSlots(SharedMemory memory, int count);

  SharedMemory memory_;
  std::vector<HeartbeatSlot> private_;  // empty if the memory is shared
  std::span<HeartbeatSlot> slots_;
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
