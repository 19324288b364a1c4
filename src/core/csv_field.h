// One field of a CSV line.
#pragma once

#include <string>

namespace ddp {

// Quoted as RFC 4180 says where it needs quotes, so that a text with newlines is whole.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace ddp
