// What a file is that is no safetensors file, by its first bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp {

// The first bytes that foreign_file() looks at.
inline constexpr size_t kForeignHead = 512;

// What the file is and what to do, such as "it is an archive of torch.save; convert it: python3 -c ..."; empty if its
// first bytes say nothing. `head`: the first kForeignHead bytes, or the whole file if it is shorter. `name`: its path,
// for the commands.
std::string foreign_file(std::string_view head, const std::string& name);

}  // namespace ddp
