#include "core/broken_picture.h"

#include <fmt/format.h>

namespace ddp {

std::string lines_of(std::span<const BrokenPicture> pictures) {
  std::string lines;
  for (const BrokenPicture& one : pictures) lines += fmt::format("\n  {}, from step {} on", one.reason, one.step);
  return lines;
}

}  // namespace ddp
