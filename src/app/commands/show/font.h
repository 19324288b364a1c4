// A bitmap font for printable ASCII.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddp {

inline constexpr int kGlyphWidth = 6, kGlyphHeight = 8;  // pixels of a character, with the gap to the next one

// Whether pixel (x, y) of the character has ink. Characters other than printable ASCII look like '?'.
bool has_ink(char character, int x, int y);

}  // namespace ddp
