#include "checkpoint/folder_lock.h"

#include "core/error.h"
#include "core/host_name.h"
#include "core/log.h"
#include "core/printable.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

namespace ddp {

namespace {

constexpr const char* kFile = ".lock";

// Refuses what may be a file elsewhere under another name.
void make_private(int file, const std::filesystem::path& path) {
  struct stat status {};
  require(::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink <= 1, Exit::output,
          "{} is not a regular file with one name; remove it", path.string());
  (void)::fchmod(file, 0600);  // an older version made it readable; fails where another user owns it
}

// False where another process has the lock.
bool try_lock(int file, const std::filesystem::path& folder) {
  int result = 0;
  while ((result = ::flock(file, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
  }
  if (result == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  Log(0).warn("cannot lock {}: {}; two runs in this folder would not see each other", folder.string(),
              std::strerror(errno));
  return true;
}

// What the holder has written about itself.
std::string holder(int file) {
  std::array<char, 400> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return size > 0 ? fmt::format(" ({})", printable({text.data(), static_cast<size_t>(size)})) : "";
}

void write_holder(int file) {
  const std::string text = fmt::format("process {} of user {} on {}", ::getpid(), ::geteuid(), host_name());
  if (::ftruncate(file, 0) == 0) (void)!::pwrite(file, text.data(), text.size(), 0);  // the message only lacks it
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, int wait_seconds)
    : folder_(folder),
      file_(::open((folder / kFile).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {
  require(file_ >= 0, Exit::output, "cannot open {}: {}; {}", (folder / kFile).string(), errno_text(errno),
          errno == ELOOP ? "it is a link: remove it" : "choose another --output-dir");
  try {
    make_private(file_, folder / kFile);
    for (int tenths = 0; !try_lock(file_, folder); ++tenths) {
      require(tenths < 10 * wait_seconds, Exit::output,
              "another run still writes to {}{}; end it first, or choose another --output-dir", folder.string(),
              holder(file_));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    require_in_place();
  } catch (const Error&) {
    ::close(file_);
    throw;
  }
  write_holder(file_);
}

// While the file is open, no other file has its number. A disk that does not answer proves nothing: what is written
// then has its own error.
void FolderLock::require_in_place() const {
  struct stat held {
  }, there{};
  if (::fstat(file_, &held) != 0) return;
  const bool found = ::lstat((folder_ / kFile).c_str(), &there) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return;
  require(found && held.st_dev == there.st_dev && held.st_ino == there.st_ino, Exit::output,
          "the output folder {} was removed or replaced while this run used it; nothing more is written there",
          folder_.string());
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : folder_(std::move(other.folder_)), file_(std::exchange(other.file_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace ddp
