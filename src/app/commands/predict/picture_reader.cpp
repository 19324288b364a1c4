#include "app/commands/predict/picture_reader.h"

#include "core/error.h"
#include "core/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace ddp {
namespace {

constexpr int64_t kMostFileBytes = int64_t{1} << 31;  // of a file

}  // namespace

void PictureReader::read_file(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));  // waits for no FIFO
  struct stat status {};
  require(file.get() >= 0 && fstat(file.get(), &status) == 0, Exit::data, "cannot be read: {}", errno_text(errno));
  require(S_ISREG(status.st_mode), Exit::data, "is {}, not a file", kind_of_file(status.st_mode));
  require(status.st_size > 0, Exit::data, "is empty");
  require(status.st_size <= kMostFileBytes, Exit::data, "has {} bytes, too many for a picture",
          static_cast<int64_t>(status.st_size));
  file_.resize(static_cast<size_t>(status.st_size));
  const ReadResult result = read_at(file.get(), 0, file_);
  require(result.error == 0, Exit::data, "cannot be read: {}", std::strerror(result.error));
  require(result.bytes == file_.size(), Exit::data, "became shorter while it was read");
}

PictureHeader PictureReader::read(const std::string& path, std::span<uint8_t> pixels) {
  read_file(path);
  const PictureHeader header = read_picture_header(file_, exif_);
  const PictureSize size = header.size, crop = transform_.crop;
  require(
      transform_.kind != TransformConfig::Kind::none || size == crop, Exit::data,
      "has {} x {} pixels, and the network reads {} x {}: it was trained on images of one size, which are not resized",
      size.w, size.h, crop.w, crop.h);
  decoder_.decode(file_, header, geometry_of(transform_, size, {}), pixels);
  return header;
}

}  // namespace ddp
