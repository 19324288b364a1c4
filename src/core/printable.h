// Text of strangers, such as the name of a file, for a message.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ddp {

// Returns `text` on one line, as valid UTF-8: each byte of a control character (newlines, U+0080 to U+009F, and those
// that change the direction of text) and each byte that is not UTF-8 becomes \xNN.
std::string printable(std::string_view text);

// "NAME=value", printable, of an environment variable. "..." takes the place of the value if the name has KEY, TOKEN or
// SECRET: the value is a secret.
std::string printable_variable(std::string_view name, std::string_view value);

// As printable(), as one word of a shell, in quotes.
std::string shell_word(std::string_view text);

// As printable(); what is longer than 100 bytes ends with "...".
std::string shortened(std::string_view text);

// The first ten names, printable, with commas, and how many more there are.
std::string first_names(std::span<const std::string> names);

}  // namespace ddp
