#include "core/printable.h"

#include "core/printable_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ddp {
namespace {

// The bytes of the character at the start of `text`; 0 if it is no printable character in UTF-8. The second byte has a
// smaller range after some first bytes: this excludes overlong forms, surrogates, and what lies above U+10FFFF.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  if (!follows(1) || first < 0xC2 || first > 0xF4) return 0;
  if (first < 0xE0) return first == 0xC2 && second < 0xA0 ? 0 : 2;
  if (!follows(2) || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
  if (first == 0xE2 && second == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) return 0;  // U+2028 to U+202E
  if (first == 0xE2 && second == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9) return 0;  // U+2066 to U+2069
  if (first < 0xF0) return 3;
  if (!follows(3) || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
  return 4;
}

std::string escaped(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const size_t bytes = kept.find(text[0]) != kept.npos ? 1 : character_bytes(text);
    if (bytes > 0)
      result += text.substr(0, bytes);
    else
      result += fmt::format("\\x{:02X}", static_cast<uint8_t>(text[0]));
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, ""); }
std::string printable_text(std::string_view text) { return escaped(text, "\n\t"); }

size_t bytes_of_whole_characters(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // not the first byte of a character
    const size_t bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return bytes > back ? text.size() - back : text.size();
  }
  return text.size();
}

std::string printable_variable(std::string_view name, std::string_view value) {
  for (const std::string_view part : {"KEY", "TOKEN", "SECRET"})
    if (name.find(part) != name.npos) value = "...";
  return printable(name) + "=" + printable(value);
}

std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : printable(text)) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string shortened(std::string_view text) {
  constexpr size_t kMostBytes = 100;
  const std::string result = printable(text.substr(0, kMostBytes + 1));
  if (text.size() <= kMostBytes && result.size() <= kMostBytes) return result;
  size_t end = kMostBytes;
  while ((result[end] & 0xc0) == 0x80) --end;  // not inside a character of several bytes
  return result.substr(0, end) + "...";
}

std::string first_names(std::span<const std::string> names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() <= kShown ? text : text + fmt::format(" and {} more", names.size() - kShown);
}

}  // namespace ddp
