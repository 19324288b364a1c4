#include "telemetry/growing_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ddp {

GrowingFile::GrowingFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_for_appending(path_)), size_(::lseek(file_, 0, SEEK_END)) {
  buffer_.reserve(kBuffer);
}

GrowingFile::~GrowingFile() {
  if (file_ < 0) return;
  write_buffer();  // the run failed, so that close() was not called
  ::close(file_);
}

void GrowingFile::write(std::string_view record) {
  if (buffer_.size() + record.size() > kBuffer) flush();
  if (file_ < 0) return;
  buffer_ += record;
  size_ += static_cast<int64_t>(record.size());
}

bool GrowingFile::write_buffer() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  buffer_.clear();
  return true;
}

void GrowingFile::give_up() {
  failure_ = fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno));
  ::close(std::exchange(file_, -1));
  Log(0).warn("{}; training continues without it", failure_);
}

void GrowingFile::flush() {
  if (file_ >= 0 && !write_buffer()) give_up();
}

void GrowingFile::close() {
  flush();
  if (file_ >= 0) ::close(std::exchange(file_, -1));
  require(failure_.empty(), Exit::output, "{}; make room on the disk: all later events are lost", failure_);
}

}  // namespace ddp
