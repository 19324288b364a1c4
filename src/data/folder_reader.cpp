#include "data/folder_reader.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace ddp {
namespace {

int open_below(int folder, std::string_view path) {
  return openat(folder, std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

}  // namespace

FolderReader::FolderReader(std::filesystem::path root)
    : root_(std::move(root)), folder_(::open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  require(folder_ >= 0, Exit::data, "{}: {}", printable(root_.native()), errno_text(errno));
}

FolderReader::~FolderReader() {
  if (folder_ >= 0) close(folder_);
}

void FolderReader::read_part(std::string_view path, const Expected& expected, size_t offset, size_t bytes,
                             std::vector<uint8_t>& content) const {
  int error = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const OpenFile file(open_below(folder_, path));
    struct stat status {};
    error = file.get() < 0 || fstat(file.get(), &status) != 0 ? errno : 0;
    if (error == 0) {
      const auto name = [&] { return printable(full(path).native()); };
      require(S_ISREG(status.st_mode), Exit::data, "{} is {}, not a file", name(), kind_of_file(status.st_mode));
      const int64_t mtime_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
      require(status.st_size == expected.bytes && mtime_ns == expected.mtime_ns, Exit::data,
              "{} has changed since this run listed its data ({} bytes then, {} now)", name(), expected.bytes,
              static_cast<int64_t>(status.st_size));
      require(expected.bytes <= kMostBytes, Exit::data, "{} has {} bytes; a picture may have {}", name(),
              expected.bytes, kMostBytes);
      const auto whole = static_cast<size_t>(expected.bytes);
      content.resize(std::min(bytes, whole - std::min(offset, whole)));
      const ReadResult result = read_at(file.get(), offset, content);
      error = result.error;
      require(error != 0 || result.bytes == content.size(), Exit::data,
              "{} became shorter while it was read: {} of {} bytes", name(), offset + result.bytes, whole);
      if (error == 0) return;
    }
    if (error != EIO && error != ESTALE) break;
  }
  fail(Exit::data, "cannot read {}: {} (errno {}){}", printable(full(path).native()), errno_text(error), error,
       error == ENOENT ? "; it was there when this run listed its data" : "");
}

void FolderReader::announce(std::string_view path) const {
  const OpenFile file(open_below(folder_, path));
  if (file.get() >= 0) posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED);
}

}  // namespace ddp
