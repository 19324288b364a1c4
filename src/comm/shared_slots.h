// A heartbeat table's slots in memory that processes of a host share. It has no name and no file: nothing is left
// behind, however they end, and neither the size nor the presence of /dev/shm matters. Where it cannot be shared (other
// users, other process namespaces, no /proc) a process has memory of its own instead, and knows only what it writes
// itself.
#pragma once

#include "comm/heartbeat_slot.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

class SharedSlots {
 public:
  struct Key {  // for other processes; bytes
    int32_t pid = 0, file = -1;
    uint64_t mark = 0;  // what they must find there
  };

  explicit SharedSlots(int count);         // new ones, zeroed
  SharedSlots(const Key& key, int count);  // another process's, which has not hidden them yet, or private ones
  ~SharedSlots();
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  Key key() const;
  void hide();  // nobody can join from now on
  bool shared() const { return shared_; }
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

// Whether a process of this host has ended, though it is nobody's child or waits to be reaped. Where the kernel does
// not tell, none ever has.
class ProcessHandle {
 public:
  explicit ProcessHandle(int pid = 0);  // 0: none
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  bool ended() const;  // from any thread

 private:
  int file_ = -1;
};

}  // namespace ddp
