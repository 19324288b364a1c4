// A long text of strangers for the output, piece by piece.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp {

// As printable() (core/printable.h), but newlines and tabs stay.
std::string printable_text(std::string_view text);

// The bytes of `text` before a last character in UTF-8 that is not complete: more bytes may complete it.
size_t bytes_of_whole_characters(std::string_view text);

}  // namespace ddp
