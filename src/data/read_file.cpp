#include "data/read_file.h"

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

std::string read_whole_file(const std::filesystem::path& path, int64_t most) {
  const std::string name = printable(path.native());
  const auto require_system = [&](bool holds) {
    require(holds, Exit::data, "{}: cannot read it: {}", name, std::strerror(errno));
  };
  struct stat status;
  require_system(::stat(path.c_str(), &status) == 0);
  require(S_ISREG(status.st_mode), Exit::data, "{}: is {}, not a file", name,
          S_ISDIR(status.st_mode) ? "a folder" : "a FIFO, a socket or a device");
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  require_system(file.get() >= 0 && ::fstat(file.get(), &status) == 0);
  require(status.st_size <= most, Exit::data, "{}: has {} bytes; such a file may have {}", name,
          int64_t{status.st_size}, most);
  std::string content(static_cast<size_t>(status.st_size), '\0');
  const ReadResult result = read_at(file.get(), 0, {reinterpret_cast<uint8_t*>(content.data()), content.size()});
  require(result.error == 0, Exit::data, "{}: cannot read it: {}", name, std::strerror(result.error));
  require(result.bytes == content.size(), Exit::data, "{}: became shorter while it was read", name);
  return content;
}

}  // namespace ddp
