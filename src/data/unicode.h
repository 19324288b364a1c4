// Names as people read them: a Mac writes "é" as a letter and an accent, most other systems as one character.
//
// The forms return text as it is that is not UTF-8, or is longer than the name of a file may be (255 bytes).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ddp {

size_t utf8_bytes(std::string_view text);  // of the character at its begin; 0 where that is not UTF-8

std::string composed(std::string_view text);     // Unicode normal form C
std::string decomposed(std::string_view text);   // Unicode normal form D
std::string case_folded(std::string_view text);  // in form C; equal for texts that differ only by case

// Names which of the unknown names differ only by case from a known one: "; these names differ only by case: Cat and
// cat". Empty: none. Printable.
std::string case_differences(std::span<const std::string> unknown, std::span<const std::string> known);

// Both names with the bytes by which they differ: "é (65 CC 81) and é (C3 A9)". Printable.
std::string shown_with_bytes(std::string_view a, std::string_view b);

}  // namespace ddp
