#include "core/read_file.h"

#include "core/error.h"
#include "core/printable.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace ddp {

ReadResult read_at(int file, size_t offset, std::span<uint8_t> to) {
  ReadResult result;
  while (result.bytes < to.size()) {
    const ssize_t got =
        ::pread(file, to.data() + result.bytes, to.size() - result.bytes, static_cast<off_t>(offset + result.bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result.error = errno;
    if (got <= 0) break;
    result.bytes += static_cast<size_t>(got);
  }
  return result;
}

const char* kind_of_file(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

// Looks before it opens, because to open some devices has an effect. Looks again at what it has opened.
OpenFile open_for_reading(const std::filesystem::path& path) {
  const std::string name = printable(path.native());
  struct stat status {};
  const auto require_regular = [&](bool found) {
    require(found, Exit::data, "{}: cannot read it: {}", name, errno_text(errno));
    require(S_ISREG(status.st_mode), Exit::data, "{}: is {}, not a file", name, kind_of_file(status.st_mode));
  };
  require_regular(::stat(path.c_str(), &status) == 0);
  OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  require_regular(file.get() >= 0 && ::fstat(file.get(), &status) == 0);
  return file;
}

int64_t size_of(const OpenFile& file, const std::string& name) {
  struct stat status {};
  require(::fstat(file.get(), &status) == 0, Exit::data, "{}: cannot read it: {}", name, errno_text(errno));
  return status.st_size;
}

std::string read_whole_file(const std::filesystem::path& path, int64_t most) {
  const std::string name = printable(path.native());
  const OpenFile file = open_for_reading(path);
  const int64_t size = size_of(file, name);
  require(size <= most, Exit::data, "{}: has {} bytes; such a file may have {}", name, size, most);
  std::string content(static_cast<size_t>(size), '\0');
  const ReadResult result = read_at(file.get(), 0, {reinterpret_cast<uint8_t*>(content.data()), content.size()});
  require(result.error == 0, Exit::data, "{}: cannot read it: {}", name, std::strerror(result.error));
  require(result.bytes == content.size(), Exit::data, "{}: became shorter while it was read", name);
  return content;
}

}  // namespace ddp
