#include "app/predict/picture_reader.h"

#include "core/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace ddp {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 31;  // of a file

struct Closing {
  int file;
  ~Closing() {
    if (file >= 0) ::close(file);
  }
};

}  // namespace

void PictureReader::read_file(const std::string& path) {
  const Closing open_file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};  // waits for no FIFO
  const int file = open_file.file;
  struct stat status {};
  require(file >= 0 && fstat(file, &status) == 0, Exit::data, "cannot be read: {}", std::strerror(errno));
  require(S_ISREG(status.st_mode), Exit::data, "is not a regular file");
  require(status.st_size > 0, Exit::data, "is empty");
  require(status.st_size <= kMostBytes, Exit::data, "has {} bytes, too many for a picture",
          static_cast<int64_t>(status.st_size));
  file_.resize(static_cast<size_t>(status.st_size));
  for (size_t done = 0; done < file_.size();) {
    const ssize_t count = ::read(file, file_.data() + done, file_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, Exit::data, "cannot be read: {}", std::strerror(errno));
    require(count > 0, Exit::data, "became shorter while it was read");
    done += static_cast<size_t>(count);
  }
}

void PictureReader::read(const std::string& path, std::span<uint8_t> pixels) {
  read_file(path);
  const PictureHeader header = read_picture_header(file_, exif_);
  const PictureSize size = header.size, crop = transform_.crop;
  require(
      transform_.kind != TransformConfig::Kind::none || size == crop, Exit::data,
      "has {} x {} pixels, and the network reads {} x {}: it was trained on images of one size, which are not resized",
      size.w, size.h, crop.w, crop.h);
  decoder_.decode(file_, header, geometry_of(transform_, size, {}), pixels);
}

}  // namespace ddp
