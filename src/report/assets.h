// The style and the script of the page: page.css and page.js of this folder, which the build copies into the program.
#pragma once

#include <string_view>

namespace ddp::report {

extern const std::string_view kStyle, kScript;

}  // namespace ddp::report
