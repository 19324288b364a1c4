// The columns that text takes on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ddp {

// `text` is printable UTF-8, see printable(). East Asian characters take two columns, combining ones none.
int columns_of_text(std::string_view text);

// The longest beginning of `text` that takes at most this many columns, in whole characters; and the same, filled up
// with spaces.
std::string cut(std::string_view text, int columns);
std::string padded(std::string_view text, int columns);

}  // namespace ddp
