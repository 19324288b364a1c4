// What the name of a file says about it. The first bytes of a picture decide its format, not its name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Whether the name ends in one of these, in any case.
inline constexpr const char* kPictureEndings = ".jpg, .jpeg, .png or .webp";
bool has_picture_name(std::string_view name);

// The ending of a picture of another kind, in lower case, such as ".heic"; empty for any other name.
std::string_view unread_kind(std::string_view name);

// For each kind a line: how many there are in `folder`, and a command line that converts them.
std::vector<std::string> conversion_notes(const std::map<std::string_view, int64_t>& kinds, std::string_view folder);

}  // namespace ddp
