// Anonymous memory (memfd) that processes of a host share. It leaves no file behind, however the processes end, and
// does not need /dev/shm. It never shrinks, so a peer cannot make a read of it fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

// Opens the anonymous memory of another process: its open file `file`, which memfd_create() has made with this `name`.
// Returns -1, and opens nothing, if the file is something else: the number may mean another process here. Returns -1
// too if the memory may still shrink, which would kill a process that reads it.
int open_memory_of(int pid, int file, const char* name, int flags);

// Owner of a mapping; move-only.
class SharedMemory {
 public:
  struct Key {  // tells other processes how to map the memory; sent as bytes
    int32_t pid = 0, file = -1;
    uint64_t inode = 0;
  };

  SharedMemory() = default;                                      // no memory
  SharedMemory(const char* name, size_t bytes);                  // zeroed; no memory if the system has none
  SharedMemory(const char* name, const Key& key, size_t bytes);  // another process's, before it calls hide(); no
                                                                 // memory if this process cannot map it: another
                                                                 // user, another process namespace, no /proc
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  Key key() const { return key_; }
  void hide();  // no other process can map the memory from now on

 private:
  bool map(int file);
  void swap(SharedMemory& other) noexcept;

  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
  Key key_;  // of the process that made the memory; file -1 elsewhere and after hide()
};

}  // namespace ddp
