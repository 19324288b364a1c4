// The lock of an output folder: one run at a time writes to it.
#pragma once

#include <filesystem>

namespace ddp {

class FolderLock {
 public:
  static constexpr int kWaitSeconds = 5;  // enough for an earlier run that is about to end

  // Takes the lock of the file .lock, which other users cannot open, and waits for it up to `wait_seconds`. The kernel
  // releases it when the process ends in any way. Where the file system has no locks, a warning says so. Throws
  // Error(Exit::output) with the name of the holder where another run still has the lock, where .lock is a link, or
  // where the folder cannot be written.
  FolderLock(const std::filesystem::path& folder, int wait_seconds);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

  // Throws Error(Exit::output) where the folder has been removed or replaced since. Thread-safe.
  void require_in_place() const;

 private:
  std::filesystem::path folder_;
  int file_;
};

}  // namespace ddp
