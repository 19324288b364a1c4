#include "data/folder_reader.h"

#include "core/error.h"
#include "core/printable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace ddp {
namespace {

class File {
 public:
  File(int folder, std::string_view path)
      : number_(openat(folder, std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

// Returns 0 or an errno. Reads at most content.size() bytes, and fewer only at the end of the file.
int read_all(int file, std::vector<uint8_t>& content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = pread(file, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  content.resize(done);
  return 0;
}

}  // namespace

FolderReader::FolderReader(std::filesystem::path root)
    : root_(std::move(root)), folder_(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  require(folder_ >= 0, Exit::data, "{}: {}", printable(root_.native()), std::strerror(errno));
}

FolderReader::~FolderReader() {
  if (folder_ >= 0) close(folder_);
}

void FolderReader::read_head(std::string_view path, const Expected& expected, size_t bytes,
                             std::vector<uint8_t>& content) const {
  int error = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const File file(folder_, path);
    struct stat status {};
    error = file.number() < 0 || fstat(file.number(), &status) != 0 ? errno : 0;
    if (error == 0) {
      const auto name = [&] { return printable(full(path).native()); };
      require(S_ISREG(status.st_mode), Exit::data, "{} is not a regular file", name());
      const int64_t mtime_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
      require(status.st_size == expected.bytes && mtime_ns == expected.mtime_ns, Exit::data,
              "{} has changed since this run listed its data ({} bytes then, {} now); start the run again", name(),
              expected.bytes, static_cast<int64_t>(status.st_size));
      require(expected.bytes <= kMostBytes, Exit::data, "{} has {} bytes; a picture may have {}", name(),
              expected.bytes, kMostBytes);
      content.resize(std::min(bytes, static_cast<size_t>(expected.bytes)));
      const size_t wanted = content.size();
      error = read_all(file.number(), content);
      require(error != 0 || content.size() == wanted, Exit::data, "{} became shorter while it was read: {} of {} bytes",
              name(), content.size(), wanted);
      if (error == 0) return;
    }
    if (error != EIO && error != ESTALE) break;
  }
  fail(Exit::data, "cannot read {}: {} (errno {}){}", printable(full(path).native()), std::strerror(error), error,
       error == ENOENT ? "; it was there when this run listed its data" : "");
}

void FolderReader::announce(std::string_view path) const {
  const File file(folder_, path);
  if (file.number() >= 0) posix_fadvise(file.number(), 0, 0, POSIX_FADV_WILLNEED);
}

}  // namespace ddp
