// The frame of a page: one HTML file with its style and its script, which needs no network and no other file.
#pragma once

#include <string>

namespace ddp::report {

struct PageInfo {
  std::string version;  // of the program that makes the page
  std::string time;     // when
  std::string nonce;    // a word that nobody can guess: letters and digits
};

// In the first 512 bytes of each page.
inline constexpr const char* kMarkOfPages = "<meta name=\"generator\" content=\"ddp_train\">";

// `title` and `body` are HTML. The page's Content-Security-Policy allows no script and no style but those with the
// nonce, and no network at all.
std::string document(const std::string& title, const std::string& body, const PageInfo& info);

// A part of a page with a heading; empty where `content` is.
std::string section(const std::string& title, const std::string& content);

}  // namespace ddp::report
