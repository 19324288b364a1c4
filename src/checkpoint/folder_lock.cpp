#include "checkpoint/folder_lock.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace ddp {

FolderLock::FolderLock(const std::filesystem::path& folder, int wait_seconds)
    : file_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  require(file_ >= 0, Exit::output, "cannot write to {}: {}; choose another --output-dir", folder.string(),
          std::strerror(errno));
  for (int tenths = 0; ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tenths) {
    if (tenths == 10 * wait_seconds) {
      ::close(file_);
      fail(Exit::output, "another run still writes to {}; end it first, or choose another --output-dir",
           folder.string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace ddp
