#include "core/host_name.h"

#include <unistd.h>

#include <array>

namespace ddp {

std::string host_name() {
  std::array<char, 256> name{};  // POSIX: at most 255 bytes; a name that is cut off need not end with a zero
  if (::gethostname(name.data(), name.size()) != 0 || name.back() != 0 || name.front() == 0) return "unknown";
  return name.data();
}

}  // namespace ddp
