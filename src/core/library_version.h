// The versions of a library: the one this program was compiled with, and the one it has loaded.
#pragma once

#include <array>
#include <string>

namespace ddp {

struct LibraryVersion {
  using Number = std::array<int, 3>;  // major, minor, patch; all 0: absent or unknown

  std::string name;
  Number compiled{}, loaded{};
};

}  // namespace ddp
