#include "data/known_names.h"

#include <algorithm>
#include <cstddef>

namespace ddp {
namespace {

constexpr std::string_view kSystemFolders[] = {"__MACOSX",
                                               ".AppleDouble",
                                               "Network Trash Folder",  // macOS and netatalk
                                               "@eaDir",
                                               "#recycle",
                                               "#snapshot",  // Synology
                                               "@__thumb",
                                               "@Recycle",
                                               "@Recently-Snapshot",  // QNAP
                                               "$RECYCLE.BIN",
                                               "System Volume Information",  // Windows
                                               "~snapshot",
                                               "lost+found",
                                               "__pycache__"};  // NetApp, ext4, Python
constexpr std::string_view kHiddenFiles[] = {"Thumbs.db", "ehthumbs.db", "desktop.ini", "Icon\r"};

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view known) { return equal_but_for_case(known, name); });
}

}  // namespace

bool equal_but_for_case(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, lower, lower); }

Split split_of(std::string_view name) {
  return contains(kTrainNames, name) ? Split::train : contains(kValNames, name) ? Split::val : Split::none;
}

Split split_word_of(std::string_view name) {
  for (auto at = name.begin(); at != name.end();) {
    const auto begin = std::find_if(at, name.end(), is_letter), end = std::find_if_not(begin, name.end(), is_letter);
    if (const Split split = split_of({begin, end}); split != Split::none) return split;
    at = end;
  }
  return Split::none;
}

bool has_word(std::string_view name, std::span<const std::string_view> words) {
  for (auto at = name.begin(); at != name.end();) {
    const auto begin = std::find_if(at, name.end(), is_letter), end = std::find_if_not(begin, name.end(), is_letter);
    if (contains(words, {begin, end})) return true;
    at = end;
  }
  return false;
}

bool is_system_folder(std::string_view name) { return contains(kSystemFolders, name); }
bool is_hidden(std::string_view name) { return name.starts_with('.') || contains(kHiddenFiles, name); }

}  // namespace ddp
