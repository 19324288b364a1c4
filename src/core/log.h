// Output lines for the user. Only rank 0 prints info. Every rank prints warnings, with the prefix "[rank N]" if N > 0.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ddp {

// Writes the text at once and flushes it: lines of ranks that share a terminal do not mix. Never throws: where the
// stream is closed, full or without a reader, the text is lost. All messages go through this function.
void write_text(std::FILE* stream, std::string_view text) noexcept;

// The status: lines that stay below all text on the terminal of stdout, such as a progress bar. write_text() clears
// them and draws them again below the text. The cursor rests at their start, so that terminals which break a long line
// when they get narrower keep the cursor above the broken parts. draw_status() replaces the status; null removes it.
// `text` is called for each drawing, on any thread; its lines are narrower than the terminal is then, and their
// newlines fewer than its rows. Any thread may call draw_status(). Never throws.
void draw_status(std::function<std::string()> text) noexcept;

// From now on each text to stderr clears its line first: there may be the status of another process.
void share_terminal_of_errors() noexcept;

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
