// What the tests of the pages share.
#pragma once

#include "report/document.h"

#include <string>

namespace ddp::report {

inline const PageInfo kInfo{.version = "1.2.3", .time = "now", .nonce = "abc123"};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace ddp::report
