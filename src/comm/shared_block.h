// Bytes that one process of a host writes once and other processes of the host read without a copy. The memory is
// anonymous (memfd): it leaves no file behind and does not need /dev/shm.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ddp {

class SharedBlock {
 public:
  // Copies `content`. If the system has no shared memory, key() is empty.
  explicit SharedBlock(std::span<const std::byte> content);
  ~SharedBlock();  // no process can map the block from now on; maps stay
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  // Tells a process how to map the block.
  std::string key() const;

  struct Mapped {
    std::shared_ptr<const std::byte[]> bytes;
    size_t size = 0;
  };
  // Maps the block of another process, read-only, while its SharedBlock exists. Returns no bytes if this process cannot
  // map it: another user, another process namespace, no /proc.
  static Mapped map(const std::string& key);

 private:
  int file_ = -1;
  size_t size_ = 0;
};

}  // namespace ddp
