// A path of a stranger in a command line that a message shows.
#pragma once

#include "core/printable.h"

#include <string>
#include <string_view>

namespace ddp {

// As one word of a shell, in quotes and printable.
inline std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : printable(text)) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

}  // namespace ddp
