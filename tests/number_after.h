// Reads a number from a text of the program.
#pragma once

#include <cmath>
#include <regex>
#include <string>

namespace ddp::testing {

// The number that follows the text, which is a regular expression without groups; NaN without one.
inline double number_after(const std::string& output, const std::string& text) {
  std::smatch found;
  const bool has = std::regex_search(output, found, std::regex(text + "([0-9]+\\.?[0-9]*)"));
  return has ? std::stod(found[1]) : std::nan("");
}

}  // namespace ddp::testing
