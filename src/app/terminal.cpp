#include "app/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace ddp {

bool output_is_terminal() {
  if (!isatty(STDOUT_FILENO)) return false;
  if (!std::getenv("OMPI_COMM_WORLD_SIZE")) return true;
  std::error_code error;
  const auto target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/1", getppid()), error);
  return !error && (target.string().rfind("/dev/pts/", 0) == 0 || target.string().rfind("/dev/tty", 0) == 0);
}

}  // namespace ddp
