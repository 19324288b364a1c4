// The version of a library that this program was compiled for, and of the one that it has loaded.
#pragma once

#include <array>
#include <string>

namespace ddp {

struct LibraryVersion {
  using Number = std::array<int, 3>;  // major, minor, patch; all 0: there is none

  std::string name;
  Number compiled{}, loaded{};
};

}  // namespace ddp
