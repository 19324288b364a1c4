// Whether a drawing is well-formed XML.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace ddp::report {

// Each element that begins ends, in order, and no text has a bare "<" or "&".
inline void expect_xml(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const size_t end = text.find(';', at);
      ASSERT_NE(end, text.npos);
      ASSERT_TRUE(
          (std::set<std::string>{"&lt;", "&gt;", "&amp;", "&quot;", "&#39;"}.contains(text.substr(at, end + 1 - at))))
          << text.substr(at, 40);
    }
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    ASSERT_NE(end, text.npos);
    const std::string tag = text.substr(at + 1, end - at - 1), name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(tag.substr(1), open.back());
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}

}  // namespace ddp::report
