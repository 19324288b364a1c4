// Names as people read them: a Mac writes "é" as a letter and an accent, most other systems as one character.
//
// composed(), decomposed() and case_folded() return a text unchanged if it is not UTF-8 or longer than 255 bytes, the
// limit of a file name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ddp {

size_t utf8_bytes(std::string_view text);  // of the character at its start; 0 where that is not UTF-8

std::string composed(std::string_view text);     // Unicode normal form C
std::string decomposed(std::string_view text);   // Unicode normal form D
std::string case_folded(std::string_view text);  // in form C; equal for texts that differ only by case

// Names which of the unknown names differ only by case from a known one: "; these names differ only by case: Cat and
// cat". Empty: none. Printable.
std::string case_differences(std::span<const std::string> unknown, std::span<const std::string> known);

// Both names with the bytes by which they differ: "é (65 CC 81) and é (C3 A9)". Printable.
std::string shown_with_bytes(std::string_view a, std::string_view b);

}  // namespace ddp
