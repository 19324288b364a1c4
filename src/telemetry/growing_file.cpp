#include "telemetry/growing_file.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/log.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace ddp {

GrowingFile::GrowingFile(std::filesystem::path path) : path_(std::move(path)), file_(open_for_appending(path_)) {}

GrowingFile::~GrowingFile() {
  if (file_) std::fclose(file_);  // the run failed, so that close() was not called
}

void GrowingFile::write(std::string_view content) {
  if (!file_) return;
  if (std::fwrite(content.data(), 1, content.size(), file_) != content.size() || std::ferror(file_)) give_up();
}

void GrowingFile::give_up() {
  failure_ = fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno));
  std::fclose(std::exchange(file_, nullptr));
  Log(0).warn("{}; training continues without it", failure_);
}

void GrowingFile::flush() {
  if (file_ && std::fflush(file_) != 0) give_up();
}

void GrowingFile::close() {
  flush();
  if (file_) std::fclose(std::exchange(file_, nullptr));
  require(failure_.empty(), Exit::output, "{}; make room on the disk: all later events are lost", failure_);
}

}  // namespace ddp
