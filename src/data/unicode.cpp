#include "data/unicode.h"

#include "core/printable.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace ddp {
namespace {

// utf8proc sorts the accents of a letter in quadratic time, so this limit keeps the time linear.
constexpr size_t kMostBytes = 255;

std::string mapped(std::string_view text, int options) {
  const auto is_ascii = [](char c) { return static_cast<signed char>(c) > 0; };
  const bool changes_ascii = (options & UTF8PROC_CASEFOLD) != 0;
  if (text.size() > kMostBytes || (!changes_ascii && std::ranges::all_of(text, is_ascii))) return std::string(text);
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (bytes == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  return bytes < 0 ? std::string(text) : std::string(reinterpret_cast<const char*>(result), static_cast<size_t>(bytes));
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{}{:02X}", text.empty() ? "" : " ", static_cast<uint8_t>(byte));
  return text;
}

}  // namespace

size_t utf8_bytes(std::string_view text) {
  utf8proc_int32_t ignored = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &ignored);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

std::string composed(std::string_view text) { return mapped(text, UTF8PROC_COMPOSE); }
std::string decomposed(std::string_view text) { return mapped(text, UTF8PROC_DECOMPOSE); }
std::string case_folded(std::string_view text) { return mapped(text, UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD); }

std::string case_differences(std::span<const std::string> unknown, std::span<const std::string> known) {
  std::map<std::string, const std::string*> folded;
  for (const std::string& name : known) folded.emplace(case_folded(name), &name);
  std::vector<std::string> pairs;
  for (const std::string& name : unknown)
    if (const auto found = folded.find(case_folded(name)); found != folded.end())
      pairs.push_back(fmt::format("{} and {}", name, *found->second));
  return pairs.empty() ? "" : "; these names differ only by case: " + first_names(pairs);
}

std::string shown_with_bytes(std::string_view a, std::string_view b) {
  const auto first = std::ranges::mismatch(a, b);
  const auto same = static_cast<size_t>(first.in1 - a.begin());
  std::string_view x = a.substr(same), y = b.substr(same);
  while (!x.empty() && !y.empty() && x.back() == y.back()) x.remove_suffix(1), y.remove_suffix(1);
  return fmt::format("{} ({}) and {} ({})", printable(a), hexadecimal(x), printable(b), hexadecimal(y));
}

}  // namespace ddp
