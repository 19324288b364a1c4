#include "core/log.h"

#include "core/error.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace ddp {

void write_text(std::FILE* stream, std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

bool write_output(std::FILE* stream, std::string_view text, const char* what) {
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return true;
  const int error = errno;
  require(error == EPIPE, Exit::output, "cannot write {}: {}; write them to another file or disk", what,
          std::strerror(error));
  return false;
}

Log::Log(int rank) : rank_(rank) {}

void Log::line(std::FILE* stream, std::string_view text) { write_text(stream, fmt::format("{}\n", text)); }

void Log::marked(std::string_view kind, std::string_view text) const {
  line(stderr, rank_ == 0 ? fmt::format("{}{}", kind, text) : fmt::format("[rank {}] {}{}", rank_, kind, text));
}

}  // namespace ddp
