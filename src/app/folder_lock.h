// One run at a time writes to a folder.
#pragma once

#include <filesystem>

namespace ddp {

class FolderLock {
 public:
  static constexpr int kWaitSeconds = 5;  // seconds: for a run that is about to end

  // Takes the folder's lock, if need be after `patience_seconds`. The kernel gives it back when the process ends,
  // however it ends. File systems without locks do without. Throws Error(Exit::output) where another run has it or the
  // folder cannot be written.
  FolderLock(const std::filesystem::path& folder, int wait_seconds);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;

 private:
  int file_;
};

}  // namespace ddp
