#include "core/log.h"

#include <string>

namespace ddp {

Log::Log(int rank) : rank_(rank) {}

// Writes the line at once and flushes: lines of ranks that share a terminal do not mix.
void Log::line(std::FILE* stream, std::string_view text) {
  const std::string whole = fmt::format("{}\n", text);
  std::fwrite(whole.data(), 1, whole.size(), stream);
  std::fflush(stream);
}

void Log::marked(std::string_view kind, std::string_view text) const {
  line(stderr, rank_ == 0 ? fmt::format("{}{}", kind, text) : fmt::format("[rank {}] {}{}", rank_, kind, text));
}

}  // namespace ddp
