// The lock of an output folder: one run at a time writes to it.
#pragma once

#include <filesystem>

namespace ddp {

class FolderLock {
 public:
  static constexpr int kWaitSeconds = 5;  // enough for an earlier run that is about to end

  // Takes the lock and waits for it up to `wait_seconds`. The kernel releases it when the process ends in any way. A
  // file system without locks gives no protection. Throws Error(Exit::output) where another run still has the lock, or
  // where the folder cannot be written.
  FolderLock(const std::filesystem::path& folder, int wait_seconds);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  int file_;
};

}  // namespace ddp
