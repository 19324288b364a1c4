#include "report/text.h"

#include "core/printable.h"

#include <fmt/format.h>

#include <cmath>

namespace ddp::report {
namespace {

// "1234567" with commas.
std::string with_commas(std::string digits) {
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

// Without the zeros that end a fraction.
std::string trimmed(std::string text) {
  if (text.find('.') == text.npos || text.find('e') != text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace

std::string html(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  return escaped;
}

std::string short_html(std::string_view text, size_t most) {
  if (text.size() <= most) return html(text);
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return html(text.substr(0, end)) + "...";
}

std::string label_html(std::string_view text, size_t most) {
  size_t end = 0;
  for (size_t characters = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && ++characters > most) break;
  return end == text.size() ? html(text) : html(text.substr(0, end)) + "…";
}

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return fmt::format("{:.{}g}", value, digits);
  if (size >= 1e3 || value == std::round(value)) return with_commas(fmt::format("{:.0f}", value));
  const int before = size < 1 ? 1 : static_cast<int>(std::floor(std::log10(size))) + 1;
  const int after = size < 1 ? digits : std::max(0, digits - before);
  return trimmed(fmt::format("{:.{}f}", value, after));
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "–";
  return fmt::format("{:.{}f} %", 100 * share, share < 0.1 ? 1 : 0);
}

std::string coordinate(double value) { return trimmed(fmt::format("{:.1f}", value)); }

std::string json_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : printable(text)) switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '<': quoted += "\\u003c"; break;  // "</script" or "<!--" would end or hide the rest of the element
      case '>': quoted += "\\u003e"; break;
      case '&': quoted += "\\u0026"; break;
      default: quoted += c;
    }
  return quoted + "\"";
}

}  // namespace ddp::report
