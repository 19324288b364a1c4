#include "telemetry/columns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ddp {
namespace {

struct Codes {
  uint32_t first, last;
};
constexpr std::array kWide{Codes{0x1100, 0x115F},   Codes{0x2E80, 0x303E},   Codes{0x3041, 0xA4CF},
                           Codes{0xAC00, 0xD7A3},   Codes{0xF900, 0xFAFF},   Codes{0xFE30, 0xFE6F},
                           Codes{0xFF00, 0xFF60},   Codes{0xFFE0, 0xFFE6},   Codes{0x1F300, 0x1F64F},
                           Codes{0x1F680, 0x1F6FF}, Codes{0x1F900, 0x1F9FF}, Codes{0x20000, 0x3FFFD}};
constexpr std::array kCombining{Codes{0x0300, 0x036F}, Codes{0x1AB0, 0x1AFF}, Codes{0x1DC0, 0x1DFF},
                                Codes{0x200B, 0x200F}, Codes{0x20D0, 0x20FF}, Codes{0xFE00, 0xFE0F},
                                Codes{0xFE20, 0xFE2F}};

bool is_in(const auto& ranges, uint32_t code) {
  return std::ranges::any_of(ranges, [&](const Codes& range) { return range.first <= code && code <= range.last; });
}

// Takes the first character from `text`, and returns its columns.
int take_character(std::string_view& text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t bytes = std::min<size_t>(text.size(), first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4);
  uint32_t code = bytes == 1 ? first : first & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3F);
  text.remove_prefix(bytes);
  return is_in(kCombining, code) ? 0 : is_in(kWide, code) ? 2 : 1;
}

}  // namespace

int columns_of_text(std::string_view text) {
  int columns = 0;
  while (!text.empty()) columns += take_character(text);
  return columns;
}

std::string cut(std::string_view text, int columns) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    columns -= take_character(after);
    if (columns < 0) break;
    rest = after;
  }
  return std::string(text.substr(0, text.size() - rest.size()));
}

std::string padded(std::string_view text, int columns) {
  std::string result = cut(text, columns);
  result.append(std::max(0, columns - columns_of_text(result)), ' ');
  return result;
}

}  // namespace ddp
