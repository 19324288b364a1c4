// Output lines for the user. Only rank 0 prints info. Every rank prints warnings, with the prefix "[rank N]" if N > 0.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

namespace ddp {

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
