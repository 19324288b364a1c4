// Output lines for the user. Only rank 0 prints info. Every rank prints warnings, with the prefix "[rank N]" if N > 0.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace ddp {

// Writes the text at once and flushes it: lines of ranks that share a terminal do not mix. Never throws: where the
// stream is closed, full or without a reader, the text is lost. All messages go through this function.
void write_text(std::FILE* stream, std::string_view text) noexcept;

// Writes the results of a command, which must not be lost. Returns false if their reader has ended, as in
// `ddp_train --help | head -1`. Throws Error(Exit::output) on any other failure. `what`: such as "the predictions".
bool write_output(std::FILE* stream, std::string_view text, const char* what);

class Log {
 public:
  explicit Log(int rank);

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) line(stdout, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    marked("warning: ", fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static void line(std::FILE* stream, std::string_view text);
  void marked(std::string_view kind, std::string_view text) const;
  int rank_;
};

}  // namespace ddp
